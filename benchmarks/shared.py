"""Files and figures of the benchmarks of learning, whose results are runs of several envs or cases."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gpu_vecenv.train.run_folder.intervals import student_cdf, student_quantile


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool of new Python processes that end when this one does, killed too; a plain pool's would go on."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _end_with_parent)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)  # the main thread may be in a long call

    threading.Thread(target=wait, daemon=True).start()


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
    axes.set_title(title, fontsize=11)
    axes.set(xlabel="steps of all worlds", ylabel=returns)
    axes.ticklabel_format(axis="x", style="sci", scilimits=(0, 0), useMathText=True)
    axes.grid(True, alpha=0.3)


def legend(figure: Any, panels: Iterable[Any]) -> None:
    """Name all lines of several panels once, below them, where the names hide no curve and do not run into each other."""
    named = {text: line for axes in panels for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named, loc="outside lower center", ncols=4, fontsize=9, frameon=False)


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


def equivalence(first: Sequence[float], second: Sequence[float], margin: float, resamples: int = 10_000) -> dict[str, Any]:
    """Test if two means differ by less than a margin.

    Returns:
        The difference of the means, first minus second, its 95 % interval by bootstrap, and the larger p-value of two one-sided
        Welch tests that the difference is outside the margin, with the 90 % interval that says the same. Empty with fewer than
        two numbers on a side.
    """
    sides = (np.asarray(first), np.asarray(second))
    if min(map(len, sides)) < 2:
        return {}
    difference = float(sides[0].mean() - sides[1].mean())
    random = np.random.default_rng(0)
    drawn = [values[random.integers(len(values), size=(resamples, len(values)))].mean(1) for values in sides]
    spread = [values.var(ddof=1) / len(values) for values in sides]
    error = max(math.sqrt(sum(spread)), 1e-12)
    freedom = sum(spread) ** 2 / max(sum(s**2 / (len(n) - 1) for s, n in zip(spread, sides, strict=True)), 1e-24)
    p_value = max(1 - student_cdf((difference + margin) / error, freedom), student_cdf((difference - margin) / error, freedom))
    half = student_quantile(0.95, freedom) * error
    return {
        "difference": difference,
        "bootstrap_95": [float(x) for x in np.quantile(drawn[0] - drawn[1], (0.025, 0.975))],
        "welch_90": [difference - half, difference + half],
        "p_value": p_value,
        "equivalent": p_value < 0.05,
    }
