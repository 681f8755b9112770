"""Plots of the results of ``gpu-vecenv bench``, as SVG files that contain a hash of their data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_vecenv.render.looks import OTHERS
from tools.docs.bench_words import named

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "figures"
CARTPOLE, TAG = "WarpCartPole-v1", "WarpTag-v0"
OURS = "gpu_vecenv"
COLOURS = {"gpu_vecenv": "#00695c", "gymnax": "#e65100", "Gymnasium": "#1565c0", "EnvPool": "#6a1b9a", "WarpDrive": "#b71c1c"}
STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "X")

Row = dict[str, Any]


def names(results: dict[str, Any]) -> dict[str, str]:
    """File and title of each plot for the rows of a device."""
    device = results["machine"]["device"]
    kind, shown = device.partition(":")[0], {}
    if len({row["worlds"] for row in _cartpole(results)}) > 1:
        shown[f"bench_{kind}_cartpole.svg"] = f"CartPole on {device}: env steps a second by worlds"
        shown[f"bench_{kind}_per_world.svg"] = f"CartPole on {device}: time of a step for each world"
    if len(_tag(results)) > 1:
        shown[f"bench_{kind}_tag.svg"] = f"Tag on {device}: time of a step for each agent"
    return shown


def fingerprint(results: dict[str, Any], file: str) -> str:
    """Hash of the rows that a plot shows."""
    rows = _tag(results) if file.endswith("tag.svg") else _cartpole(results)
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def is_current(results: dict[str, Any], file: str) -> bool:
    """Returns True if a plot was made from the present rows."""
    path = FOLDER / file
    return path.exists() and fingerprint(results, file) in path.read_text()


def draw(results: dict[str, Any], file: str) -> None:
    """Write a plot."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = file  # the same data give the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 5.4), layout="constrained")
    painters: dict[str, Callable[[Any, dict[str, Any]], None]] = {
        "cartpole": _speeds, "world": _per_world, "tag": _per_agent,
    }  # fmt: skip
    painters[file.removesuffix(".svg").rpartition("_")[2]](axes, results)
    axes.set(title=names(results)[file], xscale="log", yscale="log")
    axes.margins(y=0.1)
    axes.grid(True, which="major", alpha=0.3)
    figure.legend(fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / file, metadata={"Date": None, "Description": fingerprint(results, file)})
    pyplot.close(figure)


def _measured(results: dict[str, Any], env: str) -> list[Row]:
    return [row for row in results["rows"] if row["mode"] == "env" and row["env"] == env and "median_s" in row]


def _cartpole(results: dict[str, Any]) -> list[Row]:
    return _measured(results, CARTPOLE)


def _tag(results: dict[str, Any]) -> list[Row]:
    """The fastest single steps of Tag with ten neighbours observed, by agents a world."""
    rows = [row for row in _measured(results, TAG)
            if row["library"] == OURS and row["agents"] >= 105 and not row["params"].get("use_full_observation")
            and not row["path"].startswith("rollout")]  # fmt: skip
    best: dict[tuple[int, str], Row] = {}
    for row in rows:
        key = (row["agents"], row["starts"])
        if key not in best or row["agent_steps_per_s"] > best[key]["agent_steps_per_s"]:
            best[key] = row
    return sorted(best.values(), key=lambda row: row["agents"])


def _lines(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["worlds"]):
        lines.setdefault((row["library"], row["path"]), []).append(row)
    return lines


def _plot_lines(axes: Any, rows: list[Row], value: Callable[[Row, str], float]) -> None:
    """A line for each library and path, with the interval of each median."""
    seen: dict[str, int] = {}
    for (library, path), points in _lines(rows).items():
        number = seen.setdefault(library, 0)
        style, marker = STYLES[number % len(STYLES)], MARKERS[number % len(MARKERS)]
        seen[library] += 1
        worlds, middle = [row["worlds"] for row in points], [value(row, "median_s") for row in points]
        ends = [sorted((value(row, "low_s"), value(row, "high_s"))) for row in points]
        errors = [[max(0.0, m - low) for m, (low, _) in zip(middle, ends, strict=True)],
                  [max(0.0, high - m) for m, (_, high) in zip(middle, ends, strict=True)]]  # fmt: skip
        axes.errorbar(worlds, middle, yerr=errors, fmt=marker, ms=4, ls=style, lw=1.2, color=COLOURS.get(library, "#555"),
                      label=named(library, path))  # fmt: skip


def _speeds(axes: Any, results: dict[str, Any]) -> None:
    _plot_lines(axes, _cartpole(results), lambda row, end: row["worlds"] / row[end])
    axes.set(xlabel="worlds", ylabel="env steps a second")


def _per_world(axes: Any, results: dict[str, Any]) -> None:
    rows = [row for row in _cartpole(results) if row["library"] == OURS]
    _plot_lines(axes, rows, lambda row, end: 1e9 * row[end] / row["worlds"])
    single = next(row for row in rows if row["path"] in ("python_copy_false", "graph"))
    floor = 1e9 * sum(single["floor_bytes"].values()) / results["floors"]["copy_bytes_per_s"] / single["worlds"]
    axes.axhline(floor, color="black", lw=0.8, label=f"memory traffic by itself, {floor:.3g} ns")
    if "l2_bytes" in results["machine"]:
        worlds = 2 * results["machine"]["l2_bytes"] / single["bytes_per_world"]
        axes.axvline(worlds, color="gray", lw=0.8, ls=":", label="worlds fill the L2 cache twice")
    axes.set(xlabel="worlds", ylabel="ns for each world and step")


def _per_agent(axes: Any, results: dict[str, Any]) -> None:
    ways = (("own", "agents start anywhere"), ("corner", "all agents start in one corner"))
    for (starts, text), look in zip(ways, OTHERS, strict=False):
        rows = [row for row in _tag(results) if row["starts"] == starts]
        if rows:
            values = [1e9 * row["median_s"] / (row["worlds"] * row["agents"]) for row in rows]
            axes.plot([row["agents"] for row in rows], values, marker="o", ms=4, label=text, **look)
            floors = [1e9 * row["floor_s"] / (row["worlds"] * row["agents"]) for row in rows]
            label = "memory traffic or launch by itself" if starts == "own" else None
            axes.plot([row["agents"] for row in rows], floors, "k--", lw=0.8, label=label)
    axes.set(xlabel="agents in a world", ylabel="ns for each agent and step")
