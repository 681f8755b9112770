"""Outcomes of comparisons with original packages, which add up over processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

QUANTILES = (0.5, 0.99, 1.0)
"""Quantiles over episodes that a summary states."""


@dataclass
class Tally:
    """Single steps from many states, made in both.

    ``largest`` has the largest absolute difference by array of the states that agree, ``differing`` a line for each state
    that does not, and ``at_thresholds`` the number of those that agree if the original starts up to 1e-6 away. ``counts`` has
    numbers of events.
    """

    states: int = 0
    largest: dict[str, float] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)
    at_thresholds: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def note(self, differences: dict[str, float]) -> None:
        """Raise the largest differences to those of a state or of several."""
        for name, value in differences.items():
            self.largest[name] = max(self.largest.get(name, 0.0), value)

    def count(self, events: dict[str, int]) -> None:
        """Add numbers of events."""
        for name, number in events.items():
            self.counts[name] = self.counts.get(name, 0) + number

    def add(self, other: Tally) -> None:
        """Add the states of another tally."""
        self.states += other.states
        self.note(other.largest)
        self.differing += other.differing
        self.at_thresholds += other.at_thresholds
        self.count(other.counts)

    def summary(self) -> dict[str, Any]:
        """Return what JSON holds, with the first twenty states that differ."""
        return {
            "states": self.states, "differ": len(self.differing), "at_thresholds": self.at_thresholds,
            "largest": self.largest, "counts": self.counts, "differing": self.differing[:20],
        }  # fmt: skip


@dataclass
class Episodes:
    """Whole episodes made in both: ``differences`` has, by name, the largest absolute difference of each episode."""

    differences: dict[str, list[float]] = field(default_factory=dict)

    def add(self, other: Episodes) -> None:
        """Add the episodes of another comparison."""
        for name, values in other.differences.items():
            self.differences.setdefault(name, []).extend(values)

    def summary(self) -> dict[str, Any]:
        """Return the number of episodes, and by name how many differ at all and quantiles of their differences."""
        values = {name: np.array(values) for name, values in self.differences.items()}
        return {
            "episodes": max(map(len, values.values()), default=0),
            "differ": {name: int((each > 0).sum()) for name, each in values.items()},
            "quantiles": {name: np.quantile(each, QUANTILES).tolist() for name, each in values.items()},
        }
