"""How far the launches of a run may be ahead: evaluations and checkpoints need the state right after an iteration."""

from __future__ import annotations

import math
import time

CHECKPOINT_S = 60.0
"""Seconds after a checkpoint at which the next one is due, if a multiple of ``checkpoint_interval`` does not come first. A
checkpoint may take as long as fifty short iterations."""


def until_next(interval: int | None, iteration: int) -> float:
    """Return the number of iterations from one to the next multiple of an interval; infinity without an interval."""
    return math.inf if interval is None else interval - iteration % interval


class Pace:
    """Says when checkpoints are due, and how many iterations may be in flight until the next checkpoint or evaluation."""

    def __init__(self, saves: bool, checkpoint_interval: int | None, evaluation_interval: int | None) -> None:
        """Start the clock.

        Args:
            saves: the run has a folder for checkpoints.
            checkpoint_interval: iterations between two checkpoints; None saves by time alone.
            evaluation_interval: iterations between two evaluations; None: no evaluations.
        """
        self._saves, self._evaluation_interval = saves, evaluation_interval
        self._checkpoint_interval = checkpoint_interval if saves else None
        self.saved()

    def saved(self) -> None:
        """Start the clock again, after a checkpoint."""
        self._saved_at = time.monotonic()

    def ahead(self, iteration: int) -> float:
        """Return the most iterations in flight after ``iteration`` finished ones, at least 1; infinity without a limit."""
        if self._is_late():
            return 1
        return min(until_next(self._checkpoint_interval, iteration), until_next(self._evaluation_interval, iteration))

    def saves(self, iteration: int) -> bool:
        """Return True if a checkpoint is due after ``iteration`` finished ones."""
        return until_next(self._checkpoint_interval, iteration - 1) == 1 or self._is_late()

    def _is_late(self) -> bool:
        return self._saves and time.monotonic() - self._saved_at >= CHECKPOINT_S
