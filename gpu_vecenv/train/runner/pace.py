"""How far the launches of a run may be ahead: evaluations and checkpoints need the state right after an iteration."""

from __future__ import annotations

import math
import time

CHECKPOINT_S = 60.0
"""Seconds after which a new checkpoint is written even if ``checkpoint_interval`` has not passed."""


def until_next(interval: int | None, iteration: int) -> float:
    """Return the number of iterations from one to the next multiple of an interval; infinity without an interval."""
    return math.inf if interval is None else interval - iteration % interval


class Pace:
    """Says when checkpoints are due, and how many iterations may be in flight until the next checkpoint or evaluation."""

    def __init__(self, checkpoint_interval: int | None, evaluation_interval: int | None) -> None:
        """Start the clock; an interval in iterations is None if nothing is saved, or nothing is evaluated."""
        self._checkpoint_interval, self._evaluation_interval = checkpoint_interval, evaluation_interval
        self.saved()

    def saved(self) -> None:
        """Start the clock again, after a checkpoint."""
        self._saved_at = time.monotonic()

    def ahead(self, iteration: int) -> float:
        """Return the largest number of iterations in flight after ``iteration`` finished ones, at least 1."""
        if self._is_late():
            return 1
        return min(until_next(self._checkpoint_interval, iteration), until_next(self._evaluation_interval, iteration))

    def saves(self, iteration: int) -> bool:
        """Return True if a checkpoint is due after ``iteration`` finished ones."""
        interval = self._checkpoint_interval
        return interval is not None and (iteration % interval == 0 or self._is_late())

    def _is_late(self) -> bool:
        return self._checkpoint_interval is not None and time.monotonic() - self._saved_at >= CHECKPOINT_S
