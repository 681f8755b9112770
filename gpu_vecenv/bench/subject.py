"""Subject of a measurement: one way to run a case, ready to be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpu_vecenv.bench.timing import Timed


@dataclass(frozen=True)
class Subject:
    """Calls to time, steps of all worlds in one call, further entries of the row, and a function that closes the subject."""

    timed: Timed
    steps: float = 1
    facts: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], object] = lambda: None


Maker = Callable[[], Subject]
"""Makes a subject; an error becomes the row of that subject alone."""
