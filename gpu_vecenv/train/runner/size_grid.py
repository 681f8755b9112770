"""Sizes of a run that may be tried for ``num_envs="auto"``: worlds, steps of a rollout and minibatches of an epoch.

Each size that is tried keeps the updates and the optimiser steps that learning needs, has rollouts of at least as many steps as
the preset's, summed over worlds, and fits into memory. If there is none, as in short runs, the run keeps the preset's sizes.
Sizes lie on a grid of three axes. Neighbours on the first have other lengths of a rollout and as many steps in it, summed over
worlds; on the second half the worlds; on the third twice the minibatches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gpu_vecenv.train.config import AutoSizes
from gpu_vecenv.train.errors import ConfigError

MORE_MINIBATCHES = 2
"""Doublings of the fewest minibatches."""

SMALLEST_MINIBATCH = 4
"""Minibatches have at least the transitions of the reference's, divided by this, unless the fewest are smaller."""


class Sizes(NamedTuple):
    """Sizes of a run."""

    num_envs: int
    """Worlds."""
    num_steps: int
    """Steps of a rollout."""
    num_minibatches: int
    """Minibatches of an epoch."""

    @property
    def batch(self) -> int:
        """Steps of a rollout, summed over worlds."""
        return self.num_envs * self.num_steps

    def updates(self, total_steps: int) -> int:
        """Return the updates of a run of some steps, summed over worlds."""
        return math.ceil(total_steps / self.batch)


class Place(NamedTuple):
    """A place on the grid; a smaller number stands for longer rollouts, more worlds and fewer minibatches."""

    length: int
    worlds: int
    minibatches: int


@dataclass(frozen=True)
class Reference:
    """Sizes that are known to learn: those of the env's preset, with what the run's options say about rollouts."""

    sizes: Sizes
    total_steps: int
    """Steps for which they are chosen, summed over worlds: those of the preset."""
    horizon: float
    """Steps after which advantages hardly count later rewards; infinity keeps the length of a rollout."""


class Grid:
    """The sizes of a run that may be tried.

    Attributes:
        most_batch: most steps of a rollout, summed over worlds, for ``bounds.min_updates`` updates.
        keeps_reference: True if no sizes fit but the reference's, which may leave fewer updates.
    """

    def __init__(
        self, bounds: AutoSizes, reference: Reference, total_steps: int, needs: Callable[[Sizes], int], room: int | None
    ) -> None:
        """Nothing is counted yet.

        Args:
            bounds: bounds of the caller.
            reference: sizes that are known to learn.
            total_steps: steps of the run, summed over worlds.
            needs: bytes that a run of some sizes takes on its device.
            room: bytes that it may take; None if unknown.

        Raises:
            ConfigError: no sizes fit.
        """
        self.bounds, self.reference, self.total_steps, self.room = bounds, reference, total_steps, room
        self.most_batch = total_steps // bounds.min_updates
        self._needs = needs
        self._bytes: dict[Sizes, int] = {}
        self._allow(self.most_batch, bounds.num_envs, bounds.num_steps or self._usual_lengths(), bounds.num_minibatches)
        self.keeps_reference = not any(self._most_worlds) and _within(reference.sizes, bounds)
        if self.keeps_reference:
            self._allow(reference.sizes.batch, *((size, size) for size in reference.sizes))
        if not any(self._most_worlds):
            raise ConfigError(self._text())

    @property
    def least_steps(self) -> int:
        """Fewest steps of a run that has ``bounds.min_updates`` updates with rollouts as large as the reference's."""
        return self.bounds.min_updates * self.reference.sizes.batch

    def at(self, place: Place) -> Sizes | None:
        """Return the sizes at a place; None outside the grid."""
        if min(place) < 0 or place.length >= len(self._lengths):
            return None
        length = self._lengths[place.length]
        fewest, worlds = self._fewest_worlds(length), self._most_worlds[place.length] >> place.worlds
        if worlds < fewest:
            return None
        worlds = max(fewest, _rounded(worlds))
        choices = self._minibatches(worlds, length)
        if place.minibatches >= len(choices):
            return None
        return Sizes(worlds, length, choices[place.minibatches])

    def places(self) -> Iterator[Place]:
        """Yield all places with sizes."""
        for length, most in enumerate(self._most_worlds):
            for worlds in range(most.bit_length()):
                for minibatches in itertools.count():
                    place = Place(length, worlds, minibatches)
                    if self.at(place) is None:
                        break
                    yield place

    def start(self) -> Place:
        """Return the place whose sizes are nearest to the reference's."""
        goal = self.reference.sizes

        def distance(place: Place) -> tuple[float, ...]:
            sizes = self.at(place) or goal
            pairs = ((sizes.num_steps, goal.num_steps), (sizes.num_envs, goal.num_envs))
            return (*(abs(math.log2(one / other)) for one, other in pairs), place.minibatches)

        return min(self.places(), key=distance)

    def bytes_of(self, sizes: Sizes) -> int:
        """Return the bytes that a run takes, by the memory model."""
        if sizes not in self._bytes:
            self._bytes[sizes] = self._needs(sizes)
        return self._bytes[sizes]

    def fits(self, sizes: Sizes) -> bool:
        """Return True if a run fits into memory, by the memory model."""
        return self.room is None or self.bytes_of(sizes) <= self.room

    def _allow(
        self, most_batch: int, worlds: tuple[int, int] | None, lengths: tuple[int, int], minibatches: tuple[int, int] | None
    ) -> None:
        """Lay the grid within bounds; those of worlds and minibatches may be None."""
        self._worlds, self._counts = worlds, minibatches
        shortest, longest = lengths
        self._lengths = [length for length in _halved(longest) if length >= shortest]
        self._most_worlds = [self._largest(length, most_batch) for length in self._lengths]

    def _usual_lengths(self) -> tuple[int, int]:
        longest = self.reference.sizes.num_steps
        if self.total_steps <= self.reference.total_steps:
            return longest, longest  # values of later steps are learned too little to stand for rewards of a rollout cut short
        return min(longest, math.ceil(min(self.reference.horizon, longest))), longest

    def _fewest_worlds(self, length: int) -> int:
        """Return the fewest worlds for rollouts of a length: without bounds, those with as many steps in all as the reference."""
        return math.ceil(self.reference.sizes.batch / length) if self._worlds is None else self._worlds[0]

    def _largest(self, length: int, most_batch: int) -> int:
        """Return the most worlds for rollouts of a length; 0 if not even the fewest fit."""
        fewest, worlds = self._fewest_worlds(length), most_batch // length
        if self._worlds is not None:
            worlds = min(worlds, self._worlds[1])
        while worlds >= fewest:
            worlds = max(fewest, _rounded(worlds))
            sizes = Sizes(worlds, length, self._minibatches(worlds, length)[0])
            if self.fits(sizes):
                return worlds
            share = 1.0 if self.room is None else self.room / self.bytes_of(sizes)
            worlds = min(worlds - 1, int(worlds * share))
        return 0

    def _minibatches(self, worlds: int, length: int) -> list[int]:
        """Return numbers of minibatches for rollouts of some worlds and steps, the fewest first."""
        batch = worlds * length
        if self._counts is not None:
            fewest, most = self._counts
            return [n for n in _doubled(fewest, most) if n <= batch] or [batch]
        fewest = min(batch, max(1, math.ceil(self._optimiser_steps() / Sizes(worlds, length, 1).updates(self.total_steps))))
        smallest = self.reference.sizes.batch / self.reference.sizes.num_minibatches / SMALLEST_MINIBATCH
        more = [n for n in _doubled(2 * fewest, fewest << MORE_MINIBATCHES) if batch / n >= max(1, smallest)]
        return [fewest, *more]

    def _optimiser_steps(self) -> float:
        """Return the optimiser steps of an epoch that the run has at least, over all updates.

        They are those of the reference; a run that is shorter than the reference's has the same share of them.
        """
        sizes, total_steps = self.reference.sizes, self.reference.total_steps
        return sizes.num_minibatches * sizes.updates(total_steps) * min(1.0, self.total_steps / total_steps)

    def _text(self) -> str:
        """Return why no sizes fit."""
        bounds, usual = self.bounds, self.reference.sizes
        limits = [f"at most {self.most_batch:,} steps in a rollout, summed over worlds, for {bounds.min_updates:,} updates"]
        limits += [] if bounds.num_envs else [f"at least {usual.batch:,} as in the preset"]
        limits += [] if self.room is None else [f"at most {self.room / 1e6:,.1f} MB"]
        got = f"worlds {bounds.num_envs}, steps {bounds.num_steps} and minibatches {bounds.num_minibatches}"
        return (
            f"num_envs: expected bounds in which a run of {self.total_steps:,} steps fits, got {got} with "
            f"{' and '.join(limits)}: take more total_steps, fewer auto_sizes.min_updates or wider bounds"
        )


def _halved(value: int) -> Iterator[int]:
    while value >= 1:
        yield value
        value //= 2


def _doubled(value: int, most: int) -> Iterator[int]:
    while value <= most:
        yield value
        value *= 2


def _within(sizes: Sizes, bounds: AutoSizes) -> bool:
    """Return True if sizes lie within the bounds that there are."""
    pairs = zip(sizes, (bounds.num_envs, bounds.num_steps, bounds.num_minibatches), strict=True)
    return all(pair is None or pair[0] <= size <= pair[1] for size, pair in pairs)


def _rounded(worlds: int) -> int:
    """Return a multiple of four for 16 worlds and more, so that arrays of worlds keep their alignment."""
    return worlds if worlds < 16 else worlds // 4 * 4
