"""The best mean return of a run's evaluations."""

from __future__ import annotations

import math
from typing import Any

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.errors import CheckpointError


class BestReturn:
    """Remembers the highest return and the number of evaluations since it.

    ``value`` is the highest return, minus infinity before the first evaluation. ``evaluations_since`` counts the evaluations
    after the one that gave it.
    """

    def __init__(self) -> None:
        self.value = -math.inf
        self.evaluations_since = 0

    def update(self, mean_return: float) -> bool:
        """Take the result of an evaluation; return True if it is higher than all before. NaN never is."""
        better = mean_return > self.value
        self.value = float(mean_return) if better else self.value
        self.evaluations_since = 0 if better else self.evaluations_since + 1
        return better

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"return": self.value, "evaluations_since": self.evaluations_since}

    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """Restore what ``state_dict()`` returned.

        Raises:
            CheckpointError: the state is damaged; the message begins with ``where``.
        """
        value, since = state.get("return"), state.get("evaluations_since")
        if state.keys() != self.state_dict().keys() or not isinstance(value, float) or math.isnan(value):
            raise CheckpointError(f"{where}: expected a return that is a float and no NaN, got {abbreviated(value)}")
        if not isinstance(since, int) or isinstance(since, bool) or not 0 <= since < 2**63:
            raise CheckpointError(f"{where}: expected evaluations_since from 0 to 2**63 - 1, got {abbreviated(since)}")
        self.value, self.evaluations_since = value, since
