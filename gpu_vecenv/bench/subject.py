"""One way to do a thing, made and ready to be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpu_vecenv.bench.timing import Timed


@dataclass(frozen=True)
class Subject:
    """Calls to time, env steps in one call, what is known of them beside time, and how to let go of them."""

    timed: Timed
    steps: int = 1
    facts: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], object] = lambda: None


Maker = Callable[[], Subject]
"""Makes a subject; what it raises becomes that subject's row, and leaves the others alone."""
