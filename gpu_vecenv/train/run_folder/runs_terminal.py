"""Shows the progress of several runs on the terminal, in one display."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import TextIO

from gpu_vecenv.train.run_folder.progress import Progress


class RunsTerminal:
    """Shows steps and rate of all runs together, and mean, lowest and highest return over the runs.

    A terminal or pipe that was closed ends the display, never the runs.
    """

    def __init__(self, total_steps: Mapping[str, int], output: TextIO, quiet: bool) -> None:
        """Start the display.

        Args:
            total_steps: steps of each run, summed over its worlds, by the run's name.
            output: standard output.
            quiet: print nothing.
        """
        self._total, self._steps, self._first = dict(total_steps), dict.fromkeys(total_steps, 0.0), 0.0
        self._returns: dict[str, dict[str, float]] = {}
        self._over: set[str] = set()
        self._progress: Progress | None = Progress(output, quiet)
        self._progress.__enter__()

    def begin(self, name: str, steps: float, total_steps: int) -> None:
        """A run begins, or goes on after ``steps`` steps."""
        self._steps[name], self._total[name] = steps, total_steps
        self._first += steps

    def log(self, name: str, metrics: Mapping[str, float]) -> None:
        """Take an iteration of a run; a policy without a finished episode keeps its last mean return."""
        self._steps[name] = metrics.get("steps", self._steps[name])
        for key, value in metrics.items():
            if key.startswith("return/") and not math.isnan(value):
                self._returns.setdefault(key.removeprefix("return/"), {})[name] = value

    def end(self, name: str) -> None:
        """A run is over."""
        self._over.add(name)

    def show(self) -> None:
        """Draw the present state, unless the last drawing was too recent."""
        if self._progress is None:
            return
        steps = sum(self._steps.values())
        total = sum(self._steps[name] if name in self._over else total for name, total in self._total.items())
        rate = self._progress.rate(steps - self._first)
        counts = f"{steps:,.0f} steps  {rate:,.0f} steps/s  {len(self._over)} of {len(self._total)} runs over"
        notes = [f"{policy} {spread(list(values.values()))}" for policy, values in self._returns.items()]
        try:
            self._progress.show(min(1.0, steps / max(total, 1)), counts, "  ".join(notes))
        except OSError:
            self._progress = None

    def close(self) -> None:
        """Leave the last state on the screen."""
        progress, self._progress = self._progress, None
        with contextlib.suppress(OSError):
            if progress is not None:
                progress.__exit__()


def spread(values: list[float]) -> str:
    """Return mean, lowest and highest of the returns of some runs as text."""
    return f"{sum(values) / len(values):.2f} ({min(values):.2f} to {max(values):.2f})"
