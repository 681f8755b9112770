"""Draws the curves of a run, or the means of several runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.train.errors import ConfigError, MetricsError
from gpu_vecenv.train.run_folder.intervals import mean_curve
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, read_metrics
from gpu_vecenv.train.run_folder.runs import holds_run, run_folders

_PANELS = (
    ("policy_loss/", "policy loss"),
    ("value_loss/", "value loss"),
    ("entropy/", "entropy (nats)"),
    ("kl/", "KL divergence (nats)"),
    ("steps_per_second", "world steps / s"),
)
"""Name or prefix of metrics, and the label of their panel."""

_COLUMNS = 3


MAX_POLICIES = 24
"""Largest number of policies that are drawn."""

MAX_VALUE = 1e100
"""Larger values are not drawn, because matplotlib's axes would overflow."""


MAX_LINES = 32
"""Most runs that are drawn one by one behind their mean."""

Lines = Sequence[Mapping[str, float | None]]
"""The lines of a run's metrics."""

Curve = tuple[tuple[float, ...], tuple[float, ...]]
"""Steps and values of the points of a metric."""


def plot_curves(run: str | Path, path: str | Path | None = None) -> Path:
    """Draw ``metrics.jsonl`` as one picture. An earlier file is replaced only when the new one is complete.

    Args:
        run: a run's folder, or a folder of several runs, whose curves are then means over the runs with their 95 % intervals.
        path: file to write, in any image format of matplotlib; None means ``curves.png`` in the folder.

    Returns:
        The file written.

    Raises:
        MetricsError: the folder holds no metrics, or none of a whole iteration.
        ConfigError: the suffix of ``path`` names no image format of matplotlib.
        OSError: the file cannot be written; an earlier file is unchanged.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    run = Path(run)
    path = run / "curves.png" if path is None else Path(path)
    kinds = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        expected = f"a file name ending in one of {', '.join(sorted(kinds))}"
        raise ConfigError(f"{path}: expected {expected}, got {path.suffix or 'no ending'!r}")
    runs = _read(run)
    # Returns of different policies seldom have the same scale, so each has a panel of its own.
    names = list(dict.fromkeys(name for lines in runs for name in lines[-1]))
    returns = [(name, f"mean return of {name[7:]}") for name in names if name.startswith("return/")][:MAX_POLICIES]
    panels = [*returns, *_PANELS]
    rows = math.ceil(len(panels) / _COLUMNS)
    figure = Figure(figsize=(4.0 * _COLUMNS, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    if len(runs) > 1:
        figure.suptitle(f"means of {len(runs)} runs and their 95 % intervals", fontsize="medium")
    grid = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
    for axes, (prefix, label) in zip(grid, panels, strict=False):
        drawn = [name for name in names if name.startswith(prefix)][:MAX_POLICIES]
        for name in drawn:
            curves = [curve for lines in runs if (curve := _curve(lines, name))[0]]
            if not curves:
                axes.text(0.5, 0.5, "no episode has ended yet", ha="center", transform=axes.transAxes)
            elif len(runs) == 1:
                _draw(axes, *curves[0], name.removeprefix(prefix))
            else:
                _draw_mean(axes, curves, name.removeprefix(prefix), each=len(drawn) == 1 and len(runs) <= MAX_LINES)
        axes.set_xlim(0, max(lines[-1]["steps"] or 0 for lines in runs))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_xlabel("world steps" if len(runs) == 1 else "world steps of a run")
        axes.set_ylabel(label, parse_math=False)  # the name of a policy may hold a $
        axes.grid(alpha=0.3)
        if len(drawn) > 1:
            for text in axes.legend(frameon=False).get_texts():
                text.set_parse_math(False)
        if prefix == "steps_per_second":
            axes.set_ylim(bottom=0)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as partial:
        figure.savefig(partial, dpi=120)
    return path


def _read(folder: Path) -> list[Lines]:
    """Return the lines of a run, or of all runs in a folder that have any.

    Raises:
        MetricsError: there is no line.
    """
    below = [path for path in run_folders(folder) if (path / METRICS_FILE).exists()]
    of_one = holds_run(folder) or not below
    runs: list[Lines] = [lines for path in ([folder] if of_one else below) if (lines := read_metrics(path))]
    if not runs:
        where = folder / METRICS_FILE if of_one else folder
        raise MetricsError(f"{where}: expected at least one iteration, got none")
    return runs


def _curve(lines: Lines, name: str) -> Curve:
    """Return the points of a metric that have a value."""
    points = [(line["steps"], y) for line in lines if (y := line.get(name)) is not None and abs(y) < MAX_VALUE]
    return tuple(x or 0.0 for x, _ in points), tuple(y for _, y in points)


def _draw(axes: Any, steps: Sequence[float], values: Sequence[float], label: str) -> None:
    """Draw the raw curve faintly and its running mean, over a twentieth of the run, on top."""
    (line,) = axes.plot(steps, values, linewidth=0.8, alpha=0.35)
    width = max(1, len(values) // 20)
    means = [sum(values[max(0, i + 1 - width) : i + 1]) / min(i + 1, width) for i in range(len(values))]
    axes.plot(steps, means, linewidth=1.8, color=line.get_color(), label=label)


def _draw_mean(axes: Any, curves: Sequence[Curve], label: str, each: bool) -> None:
    """Draw the mean of curves and its interval; with ``each``, the curves faintly behind it."""
    curve = mean_curve(curves)
    (line,) = axes.plot(curve.x, curve.mean, linewidth=1.8, label=label)
    axes.fill_between(curve.x, curve.mean - curve.half, curve.mean + curve.half, color=line.get_color(), alpha=0.25, linewidth=0)
    for steps, values in curves if each else ():
        axes.plot(steps, values, linewidth=0.5, alpha=0.3, color=line.get_color())
