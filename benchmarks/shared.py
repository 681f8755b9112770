"""Files and figures of the benchmarks of learning, whose results are runs of several envs or cases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol


class Options(Protocol):
    """Options that these benchmarks share."""

    out: Path
    figure: Path
    draw_only: bool


def write(path: Path, results: dict[str, Any], key: str) -> None:
    """Write results as JSON, a run on a line.

    Args:
        path: the file.
        results: ``benchmark``, the name of the benchmark, and the rows under ``key``; each row has a list ``runs``.
        key: ``envs`` or ``cases``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, row in results[key].items():
        runs = ",\n   ".join(json.dumps(run) for run in row["runs"])
        head = json.dumps({field: value for field, value in row.items() if field != "runs"})
        lines.append(f'  {json.dumps(name)}: {head[:-1]}, "runs": [\n   {runs}\n  ]}}')
    head = f'{{\n "benchmark": {json.dumps(results["benchmark"])},\n {json.dumps(key)}: {{\n'
    path.write_text(head + ",\n".join(lines) + "\n }\n}\n")


def label(axes: Any, title: str, returns: str) -> None:
    """Name a panel and its axes, the steps of all worlds and returns."""
    axes.set(title=title, xlabel="steps of all worlds", ylabel=returns)
    axes.ticklabel_format(axis="x", style="sci", scilimits=(0, 0), useMathText=True)
    axes.grid(True, alpha=0.3)


def save(figure: Any, path: Path) -> None:
    """Write a figure and close it."""
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def run(
    options: Options,
    measure: Callable[[Any], None],
    table: Callable[[dict[str, Any]], None],
    draw: Callable[[dict[str, Any], Path], None],
) -> None:
    """Measure, unless the results are only drawn, print the table and draw."""
    if not options.draw_only:
        measure(options)
    results = json.loads(options.out.read_text())
    table(results)
    draw(results, options.figure)
    print(f"\n{options.out}\n{options.figure}")
