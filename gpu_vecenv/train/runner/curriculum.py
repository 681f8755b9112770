"""A callback that changes parameters of the env during a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config.checks import COUNT, checked, is_number, require
from gpu_vecenv.train.runner.callbacks import Callback

if TYPE_CHECKING:
    from gpu_vecenv.train.runner.trainer import Trainer

Points = Sequence[tuple[int, float]]
"""Steps of the run, summed over worlds, in ascending order, and the value of a parameter at each."""


class Curriculum(Callback):
    """Changes parameters of the env over the steps of a run: linearly between points, and constant before and behind them.

    The env takes them by ``set_params()``. Checkpoints hold the present values, so a run that is resumed with the same callback
    ends as one without an interruption. Evaluations have the parameters of the config.

    On a GPU each change of a parameter that is not by world captures the CUDA graph of an iteration anew, which takes about as
    long as some iterations; ``interval`` makes changes rarer.

    Example::

        Trainer(config, callbacks=[Curriculum(tagging_distance=[(0, 0.1), (1_000_000, 0.02)])]).train()

    Args:
        interval: iterations between two changes.
        **points: parameter to its points.

    Raises:
        ConfigError: points that are none, or not in ascending order of steps.
    """

    def __init__(self, interval: int = 10, **points: Points) -> None:
        self.interval = checked("interval", interval, COUNT)
        require(bool(points), "Curriculum", "points of a parameter, such as tagging_distance=[(0, 0.1), (100_000, 0.02)]", points)
        for name, each in points.items():
            require(_are_points(each), name, "pairs of steps in ascending order and numbers", abbreviated(each))
        self.points = {name: ([float(step) for step, _ in each], [float(x) for _, x in each]) for name, each in points.items()}

    def values(self, steps: int, integers: Sequence[str] = ()) -> dict[str, Any]:
        """Return the values of all parameters after some steps; those of ``integers`` are rounded."""
        values = {name: float(np.interp(steps, *points)) for name, points in self.points.items()}
        return {name: round(value) if name in integers else value for name, value in values.items()}

    def on_start(self, trainer: Trainer) -> None:
        """Set the values, of a new run and of one that begins again where a change is due."""
        self._set(trainer)

    def on_iteration(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        """Set the values if a change is due."""
        self._set(trainer)

    def _set(self, trainer: Trainer) -> None:
        if trainer.iteration % self.interval:
            return
        integers = [param.name for param in trainer.env.env_spec.params if param.dtype == "int32"]
        values = self.values(trainer.iteration * trainer.steps_per_iteration, integers)
        present = trainer.env.params
        changes = {name: value for name, value in values.items() if name not in present or not np.all(present[name] == value)}
        if changes:
            trainer.env.set_params(**changes)


def _are_points(points: object) -> bool:
    if not isinstance(points, Sequence) or isinstance(points, str) or not points:
        return False
    if not all(isinstance(each, Sequence) and len(each) == 2 and all(map(is_number, each)) for each in points):
        return False
    steps = [each[0] for each in points]
    return steps == sorted({*steps})
