"""Draws the curves of a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.train.errors import ConfigError, MetricsError
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, read_metrics

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


def plot_curves(run: str | Path, path: str | Path | None = None) -> Path:
    """Draw ``metrics.jsonl`` as one picture. An earlier file is replaced only when the new one is complete.

    Args:
        run: a run's folder.
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
    lines = read_metrics(run)
    if not lines:
        raise MetricsError(f"{run / METRICS_FILE}: expected at least one iteration, got none")
    # Returns of different policies seldom have the same scale, so each has a panel of its own.
    returns = [(name, f"mean return of {name[7:]}") for name in lines[-1] if name.startswith("return/")][:MAX_POLICIES]
    panels = [*returns, *_PANELS]
    rows = math.ceil(len(panels) / _COLUMNS)
    figure = Figure(figsize=(4.0 * _COLUMNS, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
    for axes, (prefix, label) in zip(grid, panels, strict=False):
        names = [name for name in lines[-1] if name.startswith(prefix)][:MAX_POLICIES]
        for name in names:
            points = [(line["steps"], y) for line in lines if (y := line.get(name)) is not None and abs(y) < MAX_VALUE]
            if points:
                steps, values = zip(*points, strict=True)
                _draw(axes, steps, values, name.removeprefix(prefix))
            else:
                axes.text(0.5, 0.5, "no episode has ended yet", ha="center", transform=axes.transAxes)
        axes.set_xlim(0, lines[-1]["steps"])
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_xlabel("world steps")
        axes.set_ylabel(label, parse_math=False)  # the name of a policy may hold a $
        axes.grid(alpha=0.3)
        if len(names) > 1:
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


def _draw(axes: Any, steps: tuple[float, ...], values: tuple[float, ...], label: str) -> None:
    """Draw the raw curve faintly and its running mean, over a twentieth of the run, on top."""
    (line,) = axes.plot(steps, values, linewidth=0.8, alpha=0.35)
    width = max(1, len(values) // 20)
    means = [sum(values[max(0, i + 1 - width) : i + 1]) / min(i + 1, width) for i in range(len(values))]
    axes.plot(steps, means, linewidth=1.8, color=line.get_color(), label=label)
