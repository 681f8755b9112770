"""Draws curves of a run, or means of several runs: returns first and large, metrics of episodes and algorithms small below."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.render.looks import NEUTRAL, Look, look_of_role
from gpu_vecenv.train.config import CONFIG_FILE, TrainConfig
from gpu_vecenv.train.errors import ConfigError, MetricsError
from gpu_vecenv.train.run_folder.intervals import mean_curve
from gpu_vecenv.train.run_folder.matches import Matches, read_matches
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE
from gpu_vecenv.train.run_folder.runs import holds_run, metrics_of_run, run_folders
from gpu_vecenv.train.run_folder.titles import metrics_of_algorithms, title_of

_COLUMNS, _SMALL_COLUMNS = 2, 5
"""Most panels of returns, and most small panels, side by side."""

_WIDTH, _RETURN_HEIGHT, _SMALL_HEIGHT = 13.0, 4.2, 2.2
"""Width of the picture, height of a panel of returns and of a small panel, in inches."""

_MOST_MARKED = 60
"""Most points of a curve that are marked."""

MAX_POLICIES = 24
"""Largest number of policies that are drawn."""

MAX_METRICS = 20
"""Largest number of metrics of episodes that are drawn, and of those of algorithms."""

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

    If other files of the folder are damaged, the curves are drawn without what these hold, and a warning names it.

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

    run = Path(run)
    path = run / "curves.png" if path is None else Path(path)
    kinds = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        expected = f"a file name ending in one of {', '.join(sorted(kinds))}"
        raise ConfigError(f"{path}: expected {expected}, got {path.suffix or 'no ending'!r}")
    runs = _read(run)
    names = list(dict.fromkeys(name for lines in runs for name in lines[-1]))
    figure, panels = _figure(names, _learning(runs, names))
    figure.suptitle(_title(run, len(runs)), parse_math=False)
    matches = _matches(run) if len(runs) == 1 else None
    policies = [name.removeprefix("return/") for name in names if name.startswith("return/")]
    for panel in panels:
        shown = [panel.prefix] if panel.prefix in names else [name for name in names if name.startswith(panel.prefix)]
        _draw_curves(panel, runs, shown, policies)
        if matches is not None:
            _draw_random_play(panel, matches)
        _finish(panel, runs)
    _draw_legend(figure, panels, policies)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as partial:
        figure.savefig(partial, dpi=120)
    return path


class _Panel(NamedTuple):
    """Axes with the curves of a metric, or of all metrics that start alike."""

    prefix: str
    label: str
    axes: Any

    @property
    def of_returns(self) -> bool:
        """True for the return of a policy."""
        return self.prefix.startswith("return/")

    @property
    def of_episodes(self) -> bool:
        """True for a metric of episodes."""
        return self.prefix.startswith("episode/")


def _learning(runs: Sequence[Lines], names: Sequence[str]) -> list[tuple[str, str]]:
    """Return prefix, or name, and label of the panels of algorithms and of the speed; a metric without a value has none."""
    drawn = [name for name in names if any(_is_drawn(line.get(name)) for lines in runs for line in lines)]
    metrics = list(dict.fromkeys(metric for metric, _ in metrics_of_algorithms(drawn)))[:MAX_METRICS]
    return [*((f"{metric}/", title_of(metric)) for metric in metrics), ("steps_per_second", "world steps / s")]


def _figure(names: Sequence[str], learning: Sequence[tuple[str, str]]) -> tuple[Any, list[_Panel]]:
    """Return a figure, and its panels: large ones for returns, small ones below for metrics of episodes and of algorithms.

    Args:
        names: names of all metrics.
        learning: prefix and label of each panel of the last rows, see ``_learning()``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    policies = [name.removeprefix("return/") for name in names if name.startswith("return/")][:MAX_POLICIES]
    # Returns of different policies seldom have the same scale, so each has a panel of its own.
    columns = max(1, min(len(policies), _COLUMNS))
    rows = math.ceil(len(policies) / columns)
    metrics = [name for name in names if name.startswith("episode/")][:MAX_METRICS]
    learning_rows = math.ceil(len(learning) / _SMALL_COLUMNS)
    learning_columns = math.ceil(len(learning) / learning_rows)  # so that rows are about equally full
    small_rows = math.ceil(len(metrics) / _SMALL_COLUMNS)
    heights = [_RETURN_HEIGHT] * rows + [_SMALL_HEIGHT] * (small_rows + learning_rows)
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    by_row = [grid[row].subgridspec(1, columns) for row in range(rows)]
    large = [figure.add_subplot(row[column]) for row in by_row for column in range(columns)]
    for axes in large[len(policies) :]:
        axes.set_visible(False)
    small = [grid[rows + row].subgridspec(1, _SMALL_COLUMNS) for row in range(small_rows)]
    last = grid[rows + small_rows :, 0].subgridspec(learning_rows, learning_columns)
    panels = [_Panel(f"return/{name}", f"mean return of {name}", axes) for name, axes in zip(policies, large, strict=False)]
    for k, name in enumerate(metrics):
        axes = figure.add_subplot(small[k // _SMALL_COLUMNS][k % _SMALL_COLUMNS])
        panels.append(_Panel(name, name.removeprefix("episode/"), axes))
    panels += [_Panel(prefix, label, figure.add_subplot(last[k])) for k, (prefix, label) in enumerate(learning)]
    for panel in panels:
        panel.axes.set_title(panel.label, fontsize="medium", parse_math=False)  # the name of a policy may hold a $
    return figure, panels


def _draw_curves(panel: _Panel, runs: Sequence[Lines], names: Sequence[str], policies: Sequence[str]) -> None:
    """Draw the metrics with these names: the curve of one run, or the mean of several.

    Args:
        panel: axes to draw on.
        runs: metrics of each run.
        names: names of the metrics.
        policies: all policies, in the order of the env, whose colours are the same in every panel.
    """
    for name in names[:MAX_POLICIES]:
        curves = [curve for lines in runs if (curve := _curve(lines, name))[0]]
        text = "in training" if panel.of_returns else name.removeprefix(panel.prefix)
        if not curves:
            if panel.of_returns or panel.of_episodes:  # others have the curve of another policy
                text = "not recorded yet" if panel.of_episodes else "no episode has ended yet"
                panel.axes.text(0.5, 0.5, text, ha="center", transform=panel.axes.transAxes)
        elif len(runs) == 1:
            _draw(panel.axes, *curves[0], text, look_of(name, policies))
        else:
            each = len(names) == 1 and len(runs) <= MAX_LINES
            _draw_mean(panel.axes, curves, text, look_of(name, policies), each)


def _draw_random_play(panel: _Panel, matches: Matches) -> None:
    """Draw lines of random play, and of scripted policies, into a panel of returns or of a metric of episodes."""
    if panel.of_returns:
        _draw_baselines(panel.axes, matches, panel.prefix.removeprefix("return/"))
    if panel.of_episodes:
        _draw_line(panel.axes, matches.metric(panel.label, *matches.learning), "--", "random play of all roles")


def _finish(panel: _Panel, runs: Sequence[Lines]) -> None:
    """Set the axes of a panel, and the legend of one of returns."""
    from matplotlib.ticker import EngFormatter

    axes = panel.axes
    axes.set_xlim(0, max(lines[-1]["steps"] or 0 for lines in runs))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("world steps" if len(runs) == 1 else "world steps of a run")
    axes.grid(alpha=0.3)
    axes.margins(y=0.08)
    if panel.of_returns and axes.get_legend_handles_labels()[0]:  # below the panel, where it hides no curve
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 2}
        for entry in axes.legend(frameon=False, fontsize="small", **place).get_texts():
            entry.set_parse_math(False)
    if panel.prefix == "steps_per_second":
        axes.set_ylim(bottom=0)


def _draw_legend(figure: Any, panels: Sequence[_Panel], policies: Sequence[str]) -> None:
    """Name the curves of several policies once, below the small panels, of which each has a curve of each policy."""
    from matplotlib.lines import Line2D

    if len(policies) < 2 or all(panel.of_returns for panel in panels):
        return
    lines = []
    for name in policies[:MAX_POLICIES]:
        look: dict[str, Any] = {**look_of(f"/{name}", policies)}
        lines.append(Line2D([], [], linewidth=1.8, label=name, **look))
    legend = figure.legend(handles=lines, loc="outside lower center", ncols=min(len(lines), 6), frameon=False, fontsize="small")
    for entry in legend.get_texts():
        entry.set_parse_math(False)


def _read(folder: Path) -> list[Lines]:
    """Return the lines of a run, or of all runs in a folder that have any.

    Raises:
        MetricsError: there is no line.
    """
    below = [path for path in run_folders(folder) if (path / METRICS_FILE).exists()]
    of_one = holds_run(folder) or not below
    runs: list[Lines] = [lines for path in ([folder] if of_one else below) if (lines := metrics_of_run(path))]
    if not runs:
        where = folder / METRICS_FILE if of_one else folder
        raise MetricsError(f"{where}: expected at least one iteration, got none")
    return runs


def _title(folder: Path, runs: int) -> str:
    """Return the env, and the seed or the number of runs, as far as the files of the folder tell."""
    of_run = folder if runs == 1 else next(iter(run_folders(folder)), folder)
    config = None
    try:
        config = TrainConfig.of_run(of_run) if (of_run / CONFIG_FILE).is_file() else None
    except (ConfigError, OSError) as error:
        warnings.warn(f"{error}; the curves' title has the folder in place of the env and the seed", stacklevel=3)
    env = str(folder) if config is None else config.env_id
    if runs > 1:
        return f"{env}: means of {runs} runs and their 95 % intervals"
    return env if config is None else f"{env}, seed {config.seed}"


def _matches(run: Path) -> Matches | None:
    """Return the matches of a run; None if there are none, or if their file is damaged."""
    try:
        return read_matches(run)
    except (MetricsError, OSError) as error:
        warnings.warn(f"{error}; the curves lack the lines of random play", stacklevel=3)
        return None


def _draw_baselines(axes: Any, matches: Matches, policy: str) -> None:
    """Draw the mean return that random actions, or a scripted policy, have in place of a policy: horizontal lines with names."""
    roles = [role for role in matches.learning if policy in matches.roles[role].policies]
    if not roles:
        return
    several = len(matches.learning) > 1
    lines = [(matches.learning, "--", "random play of all roles" if several else "random play")]
    if several and len(roles) == 1:
        lines.append((roles, ":", f"random {policy} against the trained others"))
    for random, style, text in lines:
        _draw_line(axes, matches.baseline(policy, *random), style, text)
    for name, match in matches.scripted(roles[0]) if len(roles) == 1 else ():
        _draw_line(axes, match.mean_return[roles[0]], "-.", f"{name}{' against the trained others' if several else ''}")


def _draw_line(axes: Any, value: float | None, style: str, label: str) -> None:
    """Draw a horizontal line, unless there is no value, or it is no number or too large."""
    if _is_drawn(value):
        axes.axhline(value, color=NEUTRAL["color"], linestyle=style, linewidth=1.6, label=label)


def _curve(lines: Lines, name: str) -> Curve:
    """Return the points of a metric that have a value."""
    points = [(line["steps"], y) for line in lines if _is_drawn(y := line.get(name))]
    return tuple(x or 0.0 for x, _ in points), tuple(y for _, y in points)


def _is_drawn(value: float | None) -> TypeGuard[float]:
    """True for a value that is a number of a size that axes take."""
    return value is not None and abs(value) < MAX_VALUE


def look_of(name: str, policies: Sequence[str]) -> Look:
    """Return colour and style of a curve: those of the policy that its name ends with, or the neutral ones."""
    policy = name.partition("/")[2]
    return look_of_role(policies.index(policy)) if policy in policies else NEUTRAL


def _draw(axes: Any, steps: Sequence[float], values: Sequence[float], label: str, look: Look) -> None:
    """Draw the raw curve faintly and its running mean, over a twentieth of the run, on top."""
    marker = "." if len(steps) <= _MOST_MARKED else ""
    axes.plot(steps, values, linewidth=0.8, alpha=0.35, marker=marker, color=look["color"])
    width = max(1, len(values) // 20)
    means = [sum(values[max(0, i + 1 - width) : i + 1]) / min(i + 1, width) for i in range(len(values))]
    axes.plot(steps, means, linewidth=1.8, label=label, **look)


def _draw_mean(axes: Any, curves: Sequence[Curve], label: str, look: Look, each: bool) -> None:
    """Draw the mean of curves and its interval; with ``each``, the curves faintly behind it."""
    curve = mean_curve(curves)
    axes.plot(curve.x, curve.mean, linewidth=1.8, label=label, **look)
    axes.fill_between(curve.x, curve.mean - curve.half, curve.mean + curve.half, color=look["color"], alpha=0.25, linewidth=0)
    for steps, values in curves if each else ():
        axes.plot(steps, values, linewidth=0.5, alpha=0.3, color=look["color"])
