"""Writes tables and plots of the results of ``gpu-vecenv bench``; ``--check`` only lists those that are out of date.

README.md gets a few figures of one device in plain words, ``benchmarks/README.md`` all rows, and ``docs/figures`` the plots.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from gpu_vecenv.bench.plain import amount, times, title  # noqa: E402
from tools.docs import bench_plots, bench_training  # noqa: E402
from tools.docs.bench_words import PATHS  # noqa: E402
from tools.docs.generated import table, with_block  # noqa: E402

COMMAND = "python tools/docs/bench_table.py"
RESULTS = [ROOT / "benchmarks" / "results" / f"{name}.json" for name in ("bench_cuda", "bench_cpu", "suites_cuda", "suites_cpu")]
"""Files of results; README.md shows the first that exists."""

TRAINING = [ROOT / "benchmarks" / "results" / f"{name}.json" for name in ("training_cuda", "startup_cuda", "training_cpu")]
"""Files of results of training, which may come from another machine; README.md shows the first of a GPU."""

ELSEWHERE = "[How training is fast](docs/training-speed.md#times) has times of an iteration on an H100.\n"
"""Block of README.md without results of a GPU."""

FROM_PYTHON = """A step moves all agents of one world. From Python means calls of `step()` with `copy=False`, each for all
worlds. The other library runs in its own fastest mode. This library's fastest mode,
[many steps in one call or in a CUDA graph](docs/rollouts.md), makes
"""

WHOLE_ITERATIONS = """Speed of whole iterations of PPO: steps with a policy, and its updates. Small networks train in
[kernels of their own](docs/training-speed.md), with products in half precision.
"""

TRAINED = ("WarpCartPole-v1", "WarpTag-v0")
"""Envs whose training README.md shows."""

SETTING = ("env", "worlds", "params", "num_steps", "num_epochs", "num_minibatches", "hidden_sizes")
"""Entries that are equal in rows of training that can be compared."""

README, PAGE = ROOT / "README.md", ROOT / "benchmarks" / "README.md"
OURS = "gpu_vecenv"
LEGEND = """Figures are env steps a second, with agent steps a second in brackets. Steps from Python overwrite the same arrays in
every step, except in the columns "fresh arrays" and "bound slabs"; a slab is an array of the caller that results are written to.
A rollout makes many steps in one launch. The floor is the time that the memory traffic or the launch of a step takes by itself on
the same device. "Times the floor" is the time of the fastest single step, divided by the floor. `ours N x`: the fastest column of
the row is N times as fast as the other library. `5 + 100 agents`: 5 taggers and 100 runners in each world. `all observed`: each
agent observes all others. `all in one corner`: all agents start in one corner. `all in game`: no agent has left the game.
"""

Row = dict[str, Any]
Key = tuple[Any, ...]


def digits(value: float) -> str:
    """Three digits, with K, M or G."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " K")):
        if float(f"{value:.3g}") >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def label(row: Row) -> str:
    """Name of an env and of the parameters that tell rows apart."""
    text, params = str(row["env"]), row["params"]
    if "num_runners" in params:
        text += f", {params['num_taggers']} + {params['num_runners']} agents"
    text += ", all observed" if params.get("use_full_observation") else ""
    return text + (", all in one corner" if row["starts"] == "corner" else "")


def by_case(rows: list[Row], mode: str) -> dict[Key, list[Row]]:
    """Rows of a mode by label and number of worlds, in their order."""
    cases: dict[Key, list[Row]] = {}
    for row in rows:
        if row["mode"] == mode:
            cases.setdefault((label(row), row["worlds"]), []).append(row)
    return cases


def good(rows: list[Row], ours: bool) -> list[Row]:
    """Rows that were measured without an error, of this library or of other libraries, fastest first."""
    measured = [row for row in rows if (row["library"] == OURS) == ours and "median_s" in row]
    return sorted(measured, key=lambda row: -row["env_steps_per_s"])


def speed(row: Row) -> str:
    """Env steps a second, and agent steps where a world has several agents."""
    text = digits(row["env_steps_per_s"])
    return text if row["agents"] == 1 else f"{text} ({digits(row['agent_steps_per_s'])})"


def peers(rows: list[Row]) -> str:
    """Other libraries, fastest first, each with the ratio of this library's fastest row to it; then those that failed."""
    ours, lines = good(rows, True), []
    for row in good(rows, False):
        where = "" if not ours or ours[0]["device"] == row["device"] else f" on the {row['device'].upper()}"
        ratio = f", ours {digits(ours[0]['env_steps_per_s'] / row['env_steps_per_s'])} x" if ours else ""
        lines.append(f"{row['library']} {row['path']}{where} {digits(row['env_steps_per_s'])}{ratio}")
    lines += [f"{row['library']} {row['path']} failed" for row in rows if "error" in row and row["library"] != OURS]
    return "<br>".join(lines) or "–"


def env_table(cases: dict[Key, list[Row]]) -> str:
    """Table of steps without a policy: speeds by way to step, times the floor, and peers. A way without rows has no column."""
    paths = [p for p in PATHS if any(row["path"] == p for rows in cases.values() for row in good(rows, True))]
    lines = []
    for (name, worlds), rows in cases.items():
        ours = {row["path"]: row for row in good(rows, True)}
        floors = [ours[p]["times_floor"] for p in paths if p in ours and not p.startswith("rollout")]
        cells = [speed(ours[p]) if p in ours else "–" for p in paths]
        lines.append([name, f"{worlds:,}", *cells, digits(min(floors)) if floors else "–", peers(rows)])
    return table(["environment", "worlds", *(PATHS[p] for p in paths), "times the floor", "other libraries"], lines)


def policy_table(rows: list[Row]) -> str:
    """Table of steps with a policy."""
    names = {"inference": "with a policy"}
    counts = ("times_floor", "torch_operations", "host_syncs", "peak_bytes")
    lines = [[label(row), f"{row['worlds']:,}", f"{names[row['mode']]}, {row['path'].replace('_', ' ')}", speed(row),
              *("–" if row.get(name) is None else digits(row[name]) for name in counts)]
             for row in rows if row["mode"] in names and "median_s" in row]  # fmt: skip
    header = ["environment", "worlds", "way", "env steps/s (agent steps/s)", "times the floor", "torch operations a step"]
    return table([*header, "host syncs a step", "peak bytes"], lines) if lines else ""


def cost(row: Row) -> str:
    """Host time of a step in microseconds and, in brackets, how much of it is above a bare launch."""
    if not row:
        return "–"
    text = f"{1e6 * row['host_s']:.1f}"
    return f"{text} ({1e6 * row['host_over_bare_s']:.1f})" if "host_over_bare_s" in row else text


def host_table(cases: dict[Key, list[Row]]) -> str:
    """Table for a GPU: host time of steps called from Python, bare launches of the same rounds, and memory."""
    lines = []
    for (name, worlds), rows in cases.items():
        ours = {row["path"]: row for row in good(rows, True)}
        if {"python_copy_false", "python_copy_true"} <= ours.keys() and "bare_launch_s" in ours["python_copy_false"]:
            persistent = ours["python_copy_false"]
            stepped = [cost(ours.get(f"python_{how}", {})) for how in ("copy_false", "bind", "copy_true")]
            times = (persistent.get(name) for name in ("bare_launch_s", "fresh_arrays_s", "python_loop_s"))
            micro = [*stepped, *("–" if value is None else f"{1e6 * value:.1f}" for value in times)]
            counts = [f"{persistent['kernel_launches']:.3g}", f"{persistent['host_syncs']:.3g}"]
            lines.append([name, f"{worlds:,}", *micro, *counts, f"{persistent['bytes_per_world']:,.0f}"])
    header = ["environment", "worlds", "host time, us a step (above a bare launch)", "with bound slabs", "with fresh arrays"]
    header += ["bare launch, us", "allocation of a step's tensors, us", "100 iterations of a Python loop, us"]
    header += ["launches a step", "host syncs a step", "bytes a world"]
    return table(header, lines) if lines else ""


def start_up(rows: list[Row]) -> str:
    """Seconds from the start of a process to its first step."""
    taken = {(label(row), f"{row['worlds']:,}", row["path"]): row["median_s"]
             for row in rows if row["mode"] == "startup" and "median_s" in row}  # fmt: skip
    named = [f"{name} with {worlds} worlds: {taken[name, worlds, 'cold']:.1f} and {value:.1f} s"
             for (name, worlds, path), value in taken.items() if path == "warm"]  # fmt: skip
    text = f"Time from process start to the first step, with an empty and with a filled kernel cache. {'; '.join(named)}.\n"
    whole = [row for row in rows if row["mode"] == "startup" and row["path"].endswith("trained_warm") and "median_s" in row]
    trained = [f"{label(row)} ({row['path'].partition('_')[0]}): {row['phases_s']['iterated']:.1f} and {row['median_s']:.1f} s"
               for row in whole]  # fmt: skip
    more = "Time from process start to the end of the first iteration and to a trained policy, with a filled kernel cache. "
    return (text if named else "") + (f"{more}{'; '.join(trained)}.\n" if trained else "")


def measured_on(results: dict[str, Any]) -> str:
    """Machine and settings of a measurement."""
    facts, floors = results["machine"], results["floors"]
    where = f"{facts['gpu']} (driver {facts['driver']}), host CPU {facts['cpu']}" if "gpu" in facts else facts["cpu"]
    text = (f"Measured with `{results['command']}` on {where}, {facts['cores']} cores, Python {facts['python']}, "
            f"PyTorch {facts['torch']}, commit {facts['commit']}, {facts['date']}. Figures are medians of {results['rounds']} "
            f"interleaved rounds. A large copy moves {floors['copy_bytes_per_s'] / 1e9:,.0f} GB/s")  # fmt: skip
    if "graph_node_s" in floors:
        text += f", an empty node of a CUDA graph takes {1e6 * floors['graph_node_s']:.2f} us"
    peers = [f"{name} {version}" if version else f"{name} (not installed)" for name, version in results["peers"].items()]
    return f"{text}. Other libraries: {', '.join(peers) or 'none'}.\n"


def short(results: dict[str, Any]) -> str:
    """Block of README.md: each environment that another library ran, at the largest size that one ran, in plain words."""
    cases: dict[Key, list[Row]] = {}
    for row in results["rows"]:
        if row["mode"] == "env":
            cases.setdefault((title(row), row["worlds"]), []).append(row)
    largest: dict[str, int] = {}
    for name, worlds in cases:
        if good(cases[name, worlds], False):
            largest[name] = max(worlds, largest.get(name, 0))
    lines, fastest = [], []
    for name, worlds in sorted(largest.items(), key=lambda key: -cases[key][0]["agents"]):
        best, other = good(cases[name, worlds], True), good(cases[name, worlds], False)[0]
        python = [row["env_steps_per_s"] for row in best if row["path"] == "python_copy_false"]
        if python:
            ratio = f"{times(python[0] / other['env_steps_per_s'])} times {other['library']}"
            lines.append([f"{name}; {worlds:,} worlds", amount(python[0]), ratio])
            fastest.append(amount(best[0]["env_steps_per_s"]))
    header = ["environment", "steps a second from Python", "beside the fastest other library"]
    return f"{table(header, lines)}\n{FROM_PYTHON}{fastest[0]} steps a second in the first row.\n\n{briefly_measured_on(results)}"


def short_training(results: dict[str, Any]) -> str:
    """Block of README.md about training: the fastest run of each env in ``TRAINED``, beside the fastest other library."""
    rows, parts = [row for row in results["rows"] if row["mode"] == "training"], []
    for env in TRAINED:
        ours = [row for row in good(rows, True) if row["env"] == env and "runs" not in row]
        if ours:
            text = f"{title(ours[0])}: {amount(ours[0]['env_steps_per_s'])} steps a second"
            same = [row for row in good(rows, False) if all(row[key] == ours[0][key] for key in SETTING)]
            if same:
                ratio = times(ours[0]["env_steps_per_s"] / same[0]["env_steps_per_s"])
                text += f", {ratio} times {same[0]['library']}"
            parts.append(f"- {text}\n")
    return f"{WHOLE_ITERATIONS}\n{''.join(parts)}\n{briefly_measured_on(results)}" if parts else ELSEWHERE


def briefly_measured_on(results: dict[str, Any]) -> str:
    """Processor, version of torch and day of a measurement."""
    facts = results["machine"]
    return f"Measured on {facts.get('gpu', facts['cpu'])} with PyTorch {facts['torch']}, {facts['date']}.\n"


def training(runs: list[dict[str, Any]]) -> str:
    """Block with the tables of training, run by run; each names its device and commit."""
    text = f"{bench_training.LEGEND}\n{bench_training.GOALS}\n" if runs else "No measurement is recorded.\n"
    for results in runs:
        speeds = bench_training.speeds(results["rows"], label, speed, digits)
        goals = bench_training.goals(results["rows"], label, digits)
        ran = {"peers": bench_training.peers(results)}  # those of other modes may be installed, too
        tables = [part for part in (speeds, goals, start_up(results["rows"]), measured_on({**results, **ran})) if part]
        text += "\n".join(tables) + "\n"
    return text


def page(recorded: list[dict[str, Any]]) -> str:
    """Block of ``benchmarks/README.md``: all rows, device by device."""
    text = f"{LEGEND}\n"
    for results in recorded:
        device, cases = results["machine"]["device"], by_case(results["rows"], "env")
        pictures = "".join(f"![{name}](../docs/figures/{file})\n" for file, name in bench_plots.names(results).items())
        text += f"## Measured on {device}\n\n{measured_on(results)}\n{pictures}\n"
        text += f"{env_table(cases)}\n{policy_table(results['rows'])}\n{host_table(cases)}\n{start_up(results['rows'])}\n"
    return text


def recorded() -> list[dict[str, Any]]:
    """Results that exist, device by device."""
    return [json.loads(path.read_text()) for path in RESULTS if path.exists()]


def current() -> dict[Path, str]:
    """The two documents with tables of the present results."""
    runs, trained = recorded(), [json.loads(path.read_text()) for path in TRAINING if path.exists()]
    texts = {
        README: with_block(README.read_text(), "bench", COMMAND, short(runs[0])),
        PAGE: with_block(PAGE.read_text(), "bench", COMMAND, page(runs)),
    }
    on_gpu = [results for results in trained if results["machine"]["device"] != "cpu"]
    blocks = {
        README: short_training(on_gpu[0]) if on_gpu else ELSEWHERE,
        PAGE: training(trained).replace("](docs/", "](../docs/"),  # the page is one folder deeper
    }
    return {path: with_block(text, "training", COMMAND, blocks[path]) for path, text in texts.items()}


def main(arguments: list[str]) -> int:
    """Update documents and plots, or only list those out of date; returns the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: bench_table.py [--check]", file=sys.stderr)
        return 2
    stale = {path: text for path, text in current().items() if path.read_text() != text}
    plots = [
        (results, file)
        for results in recorded()
        for file in bench_plots.names(results)
        if not bench_plots.is_current(results, file)
    ]
    for path in [*stale, *(bench_plots.FOLDER / file for _, file in plots)]:
        print(f"stale: {path}")
    if not arguments:
        for path, text in stale.items():
            path.write_text(text)
        for results, file in plots:
            bench_plots.draw(results, file)
    return 1 if arguments and (stale or plots) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
