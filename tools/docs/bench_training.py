"""Tables of training: speed of whole iterations, and the time to a mean return."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from tools.docs.generated import table

OURS = "gpu_vecenv"

LEGEND = """An iteration of PPO is a rollout and its update. `fused`, `graph` and `eager` are its
[ways](docs/training-speed.md#kernels-and-graphs); a precision after it is that of the matrix products. `4 x 4` is
four epochs of four minibatches, and `64-64` gives the widths of the hidden layers. The last column is the speed divided by that
of this library's fastest single run of the same setting.
"""

GOALS = """The time to a mean return is that of as many iterations as a run needs until the mean return of the last 100 episodes
reaches it. Builds, captures and compilation do not count. The policy of that iteration is then evaluated on fresh episodes. A
seed that does not reach the return counts with the time of its whole run.
"""

Row = dict[str, Any]


def setting(row: Row) -> str:
    """Steps of a rollout, epochs x minibatches and widths."""
    sizes = "-".join(map(str, row["hidden_sizes"]))
    return f"{row['num_steps']} steps, {row['num_epochs']} x {row['num_minibatches']}, {sizes}"


def way(row: Row) -> str:
    """The way, with the library if it is another one."""
    words = [word for word in str(row["path"]).split("_") if word]
    text = " ".join(words) if words[-1:] == ["runs"] else ", ".join(words)
    return text if row["library"] == OURS else f"{row['library']}, {row['path']}"


def failed(rows: list[Row]) -> str:
    """Lines for rows with errors."""
    return "".join(f"\n{row['env']}, {setting(row)}: {way(row)} failed.\n" for row in rows if "error" in row)


def speeds(rows: list[Row], label: Callable[[Row], str], speed: Callable[[Row], str], digits: Callable[[float], str]) -> str:
    """Table of iterations; empty without rows.

    Args:
        rows: rows of a file.
        label: formats an env and its parameters.
        speed: formats env steps and agent steps a second.
        digits: formats a number.
    """
    training = [row for row in rows if row["mode"] == "training"]
    fastest: dict[tuple[str, int, str], float] = {}
    for row in training:
        key = (row["env"], row["worlds"], setting(row))
        if row["library"] == OURS and "median_s" in row and "runs" not in row:
            fastest[key] = max(fastest.get(key, 0.0), row["env_steps_per_s"])
    lines = []
    for row in training:
        if "median_s" not in row:
            continue
        best = fastest.get((row["env"], row["worlds"], setting(row)))
        iteration = 1e3 * row["median_s"] * row["num_steps"]
        of_best = "–" if best is None else digits(row["env_steps_per_s"] / best)
        cells = [label(row), f"{row['worlds']:,}", setting(row), way(row), speed(row), digits(iteration), of_best]
        lines.append(cells)
    header = ["environment", "worlds", "setting", "way", "env steps/s (agent steps/s)", "ms an iteration"]
    return table([*header, "of the fastest"], lines) + failed(training) if training else ""


def goals(rows: list[Row], label: Callable[[Row], str], digits: Callable[[float], str]) -> str:
    """Table of times to a mean return; empty without rows."""
    goal_rows = [row for row in rows if row["mode"] == "goal"]
    lines = []
    for row in goal_rows:
        if "median_s" not in row:
            continue
        seconds = row["seconds_by_seed"]
        iterations = row.get("iterations") or []
        steps = statistics.median(iterations) * row["worlds"] * row["num_steps"] if iterations else None
        returns = row.get("evaluated") or []
        fresh = f"{statistics.median(returns):.1f} ({min(returns):.1f} to {max(returns):.1f})" if returns else "–"
        lines.append([
            label(row), f"{row['title']}: {row['worlds']:,} worlds, {setting(row)}", way(row), f"{row['goal']:g}",
            f"{digits(1e3 * row['median_s'])} ({digits(1e3 * min(seconds))} to {digits(1e3 * max(seconds))})",
            f"{row['reached']} of {len(seconds)}", "–" if steps is None else digits(steps), fresh,
        ])  # fmt: skip
    header = ["environment", "hyperparameters", "way", "mean return", "ms, median (least to most)", "reached by"]
    header += ["env steps, median", "return on fresh episodes, median (least to most)"]
    return table(header, lines) + failed(goal_rows) if goal_rows else ""


def peers(results: dict[str, Any]) -> dict[str, str]:
    """Versions of the libraries that trained. A library from a folder has its commit, or else the start of the folder's hash."""
    named = sorted({row["library"] for row in results["rows"] if row["mode"] in ("training", "goal")} - {OURS})
    by_name = {}
    for name in named:
        key = name.lower()
        source = results.get(f"{key}_commit") or str(results.get(f"{key}_sha256"))[:12]
        by_name[name] = results["peers"].get(name) or source
    return by_name
