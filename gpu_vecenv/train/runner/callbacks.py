"""Calls of the user's code during a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_vecenv.train.runner.evaluation import Evaluation
    from gpu_vecenv.train.runner.trainer import Trainer


class Callback:
    """Methods that the trainer calls; each does nothing unless a subclass overrides it.

    The trainer waits for them, and the GPU waits for the trainer. An exception ends the run and leaves its last checkpoint.
    """

    def on_start(self, trainer: Trainer) -> None:
        """Training starts or continues."""

    def on_iteration(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        """An iteration is done; NaN stands for no value."""

    def on_episodes(self, trainer: Trainer, policy: str, mean_return: float, mean_length: float) -> None:
        """Episodes of a policy's agents ended in the iteration: their mean return, and their mean length in steps."""

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation, best: bool) -> None:
        """The policies were evaluated; ``best`` is True if the result is the best so far."""

    def on_save(self, trainer: Trainer, path: Path) -> None:
        """A checkpoint was written."""

    def on_end(self, trainer: Trainer) -> None:
        """Training ends, or stops to be continued later."""
