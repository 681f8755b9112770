"""The picture of a sweep: values over trials, and over each setting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.errors import MissingExtraError
from gpu_vecenv.render.looks import NEUTRAL, OTHERS

COLUMNS = 3
"""Panels side by side."""

Result = tuple[int, float, Mapping[str, Any]]
"""Number of a trial, its value, and its settings by path."""


def plot_sweep(path: Path, results: Sequence[Result], maximize: bool, metric: str, logarithmic: Container[str]) -> Path:
    """Draw the trials of a sweep and return the path.

    Args:
        path: picture to write.
        results: the trials with a value.
        maximize: larger values are better.
        metric: name of the value.
        logarithmic: settings with a logarithmic axis.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: the picture cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError('a picture of a sweep needs matplotlib: pip install "gpu-vecenv[train]"') from error
    names = list(dict.fromkeys(name for _, _, settings in results for name in settings))
    rows = math.ceil((len(names) + 1) / COLUMNS)
    figure = Figure(figsize=(4.2 * COLUMNS, 3.2 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False).flat
    first = next(axes)
    best = list(itertools.accumulate((value for _, value, _ in results), max if maximize else min))
    trials = [number for number, _, _ in results]
    first.plot(trials, [value for _, value, _ in results], ".", color=NEUTRAL["color"], label="a run")
    first.step(trials, best, where="post", label="the best so far", **OTHERS[0])
    first.set_xlabel("trial")
    first.xaxis.get_major_locator().set_params(integer=True)
    first.set_ylabel(metric)
    first.legend()
    for name in names:
        points = [(settings[name], value) for _, value, settings in results if name in settings]
        _draw_setting(next(axes), name, points, name in logarithmic)
    for unused in axes:
        unused.set_axis_off()
    with atomic_file(path) as partial:
        figure.savefig(partial, dpi=110)
    return path


def _draw_setting(panel: Any, name: str, points: Sequence[tuple[Any, float]], logarithmic: bool) -> None:
    """Draw the values over one setting, by name for choices that are no numbers."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    is_numeric = all(isinstance(x, int | float) and not isinstance(x, bool) for x, _ in points)
    at: list[Any] = [x if is_numeric else str(x) for x, _ in points]
    panel.plot(at, [value for _, value in points], ".", color=NEUTRAL["color"])
    if is_numeric and logarithmic and min(at) > 0:
        panel.set_xscale("log")
        if max(at) < 10 * min(at):  # no power of 10 may lie in the range, and labels of tenths would overlap
            panel.xaxis.set_major_locator(MaxNLocator(4, integer=all(isinstance(x, int) for x in at)))
            panel.xaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel(name)
