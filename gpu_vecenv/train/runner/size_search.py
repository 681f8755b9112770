"""The search for the fastest sizes of a run: from the reference, step by step on the grid, while the rate of steps grows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gpu_vecenv.errors import OutOfMemoryError
from gpu_vecenv.train.errors import ConfigError, NonFiniteError
from gpu_vecenv.train.runner.size_grid import Grid, Place, Sizes

ALIKE = 0.97
"""Sizes with this share of the highest rate are as good as the fastest ones; those with the most updates are taken."""

FINALISTS = 3
"""Sizes that are measured a second time."""

DIRECTIONS = (Place(0, -1, 0), Place(1, 0, 0), Place(0, 0, 1), Place(0, 1, 0), Place(-1, 0, 0), Place(0, 0, -1))
"""Steps on the grid in the order in which they are tried: more worlds, shorter rollouts, more minibatches, and back."""


@dataclass(frozen=True)
class Trial:
    """Sizes that were tried."""

    sizes: Sizes
    rate: float
    """Steps a second of whole iterations, summed over worlds; 0 without a measurement."""
    note: str = ""
    """Why there is no measurement."""


class Measure(Protocol):
    """Measures sizes."""

    def __call__(self, sizes: Sizes) -> float:
        """Return steps a second of whole iterations, summed over worlds.

        Raises:
            OutOfMemoryError: the sizes do not fit, although the memory model says so.
            NonFiniteError: a number of the trial is infinite or NaN.
            ConfigError: options do not fit the sizes.
        """

    def seconds(self, iteration: float) -> float:
        """Return the seconds of a trial whose iterations take ``iteration`` seconds."""


class Search:
    """A search on a grid.

    Attributes:
        trials: the trials, one for each tried size, in the order of their first measurement.
        skipped: number of sizes that were left out because a trial would have ended too late.
    """

    def __init__(
        self,
        grid: Grid,
        measure: Measure,
        seconds: float,
        now: Callable[[], float],
        report: Callable[[list[Trial]], None] = lambda trials: None,
    ) -> None:
        """Store the parts.

        Args:
            grid: the sizes.
            measure: measures the speed with some sizes.
            seconds: seconds of the search. At least half of them are left after the first trial.
            now: the clock of ``seconds``.
            report: called with all trials after each.
        """
        self.grid, self.measure, self._now, self._report = grid, measure, now, report
        self._seconds, self._end = seconds, now() + seconds
        self._trials: dict[Sizes, Trial] = {}
        self._late: set[Sizes] = set()

    @property
    def trials(self) -> list[Trial]:
        """See the class."""
        return list(self._trials.values())

    @property
    def skipped(self) -> int:
        """See the class."""
        return len(self._late - set(self._trials))

    def run(self) -> Sizes:
        """Search, and return the sizes to take.

        Raises:
            ConfigError, OutOfMemoryError, NonFiniteError: those of the first trial; without it nothing is known.
        """
        here = self._first()
        self._end = max(self._end, self._now() + self._seconds / 2)  # the first trial may compile kernels for half a minute
        moved = True
        while moved:
            moved = False
            for direction in DIRECTIONS:
                while (there := self._better(here, direction)) is not None:
                    here, moved = there, True
        self._measure_again()
        return chosen(self.trials, self.grid.total_steps)

    def _first(self) -> Place:
        """Measure the sizes nearest to the reference's, or fewer worlds if these do not fit, and return their place."""
        here = self.grid.start()
        while (sizes := self.grid.at(here)) is not None:
            try:
                self._trials[sizes] = Trial(sizes, self.measure(sizes))
                self._report(self.trials)
                return here
            except OutOfMemoryError as error:
                self._trials[sizes], last = _failed(sizes, error), error
                here = here._replace(worlds=here.worlds + 1)
        raise last

    def _better(self, here: Place, direction: Place) -> Place | None:
        """Return the next place in a direction if its rate is higher, None otherwise."""
        there = Place(*(one + step for one, step in zip(here, direction, strict=True)))
        now, then = self.grid.at(here), self.grid.at(there)
        if now is None or then is None or then == now:
            return None
        return there if self._rate(then) > self._rate(now) else None

    def _rate(self, sizes: Sizes) -> float:
        """Return the rate of some sizes, 0 if they cannot be measured or if time is too short."""
        if sizes in self._trials:
            return self._trials[sizes].rate
        if self._is_late(sizes):
            self._late.add(sizes)
            return 0.0
        if not self.grid.fits(sizes):
            return 0.0
        self._trials[sizes] = trial = self._measured(sizes)
        self._report(self.trials)
        return trial.rate

    def _measured(self, sizes: Sizes) -> Trial:
        try:
            return Trial(sizes, self.measure(sizes))
        except (OutOfMemoryError, NonFiniteError, ConfigError) as error:
            return _failed(sizes, error)

    def _is_late(self, sizes: Sizes) -> bool:
        """Return True if a trial would end after the search. Its rate is assumed to be the highest so far."""
        rate = max(trial.rate for trial in self.trials)
        return self._now() + self.measure.seconds(sizes.batch / rate) > self._end

    def _measure_again(self) -> None:
        """Measure the fastest sizes once more, as one measurement may be lucky; the mean counts."""
        fastest = sorted(self.trials, key=lambda trial: -trial.rate)
        for trial in fastest[: FINALISTS if len(fastest) > 1 else 0]:
            if trial.rate and not self._is_late(trial.sizes):
                rate = (trial.rate + self._measured(trial.sizes).rate) / 2
                self._trials[trial.sizes] = dataclasses.replace(trial, rate=rate)


def _failed(sizes: Sizes, error: Exception) -> Trial:
    return Trial(sizes, 0.0, f"{type(error).__name__}: {error}")


def chosen(trials: list[Trial], total_steps: int) -> Sizes:
    """Return the sizes to take: among those that are about as fast as the fastest ones, those with the most updates."""
    best = max(trial.rate for trial in trials)
    alike = [trial for trial in trials if trial.rate >= ALIKE * best]
    return max(alike, key=lambda trial: (trial.sizes.updates(total_steps), trial.rate)).sizes
