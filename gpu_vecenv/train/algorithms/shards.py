"""Shards: equal parts of the worlds of a run, whose transitions are shuffled into minibatches apart.

Each minibatch takes an equal share of each shard. A process of several has one shard or more, so the minibatches of a run depend
on the number of its shards and not on that of its processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.shuffle import Transitions, choose, shuffle, shuffle_samples
from gpu_vecenv.train.processes.group import Processes

APART = 0x9E37_79B9_7F4A_7C15 - 2**64
"""Difference between the seeds of two neighbouring shards, as int64: 2^64 divided by the golden ratio."""


@dataclass(frozen=True, eq=False)  # compared by identity: it holds tensors
class Shards:
    """Shards of one process."""

    first: int
    """Number of the first one among those of the run."""
    columns: tuple[Tensor, ...]
    """int64 (C,) for each shard: its columns among those of a step, in their order. Shards have equal numbers."""
    width: int
    """Columns of a step, in all."""

    @classmethod
    def of(cls, worlds: Tensor, first: int, count: int, num_worlds: int) -> Shards | None:
        """Return the shards of columns; None for the first shard alone, which is shuffled as a run without shards is.

        Args:
            worlds: int (B,), world of each column, from 0.
            first: number of the first shard.
            count: shards of this process.
            num_worlds: worlds of this process, a multiple of ``count``.
        """
        if (first, count) == (0, 1):
            return None
        shard = worlds.long() // (num_worlds // count)
        # The host reads the device once, when a run is built.
        return cls(first, tuple((shard == number).nonzero().squeeze(1) for number in range(count)), len(worlds))

    @property
    def is_one(self) -> bool:
        """True for one shard: its columns are those of a step, so a transition has one number in the shard and in all."""
        return len(self.columns) == 1

    def seeds(self, seed: Tensor) -> list[Tensor]:
        """Return the seed of each shard, int64 (), for that of the first shard of the run."""
        return [seed + _wrapped(number * APART) for number in range(self.first, self.first + len(self.columns))]


class Part(NamedTuple):
    """The part of a run's samples that a process has."""

    processes: Processes | None = None
    """Processes of the run; None: this one alone."""
    shards: Shards | None = None
    """Shards of this process; None: one, the first of the run."""


def _wrapped(number: int) -> int:
    """Return the int64 with the lowest 64 bits of a number."""
    return (number + 2**63) % 2**64 - 2**63


def choose_by_shard(valid: Tensor, all_valid: bool, shards: Shards | None) -> list[Transitions]:
    """List the transitions that count in each shard; see ``choose()``.

    Args:
        valid: bool (R, B), such as T steps of B samples.
        all_valid: see ``choose()``.
        shards: shards of the columns; None: one of all.
    """
    if shards is None or shards.is_one:
        return [choose(valid.flatten(), all_valid)]
    return [choose(valid[:, columns].flatten(), all_valid) for columns in shards.columns]


def shuffle_by_shard(
    transitions: Sequence[Transitions], num_minibatches: int, seed: Tensor, number: int, shards: Shards | None
) -> tuple[Tensor, Tensor]:
    """Shuffle the valid transitions into minibatches; see ``shuffle()``. Indices are those into R * B transitions."""
    if shards is None or shards.is_one:
        return shuffle(transitions[0], num_minibatches, _seed_of_one(seed, shards), number)
    indices, used = [], []
    for each, columns, shard_seed in zip(transitions, shards.columns, shards.seeds(seed), strict=True):
        index, use = shuffle(each, num_minibatches, shard_seed, number)
        indices.append(_in_all(index, columns, shards.width))
        used.append(use)
    return torch.cat(indices, 1), torch.cat(used, 1)


def shuffle_samples_by_shard(
    transitions: Sequence[Transitions], num_minibatches: int, seed: Tensor, number: int, orders: int, shards: Shards | None
) -> Tensor:
    """Shuffle several times as ``shuffle_by_shard()`` does; see ``shuffle_samples()``."""
    if shards is None or shards.is_one:
        return shuffle_samples(transitions[0], num_minibatches, _seed_of_one(seed, shards), number, orders)
    samples = []
    for each, columns, shard_seed in zip(transitions, shards.columns, shards.seeds(seed), strict=True):
        sample = shuffle_samples(each, num_minibatches, shard_seed, number, orders)
        at = _in_all(sample.clamp(min=0).long(), columns, shards.width)
        samples.append(torch.where(sample < 0, -1, at).int())
    return torch.cat(samples, 2)


def places_of_minibatch(count: int, num_minibatches: int, shards: Shards | None) -> int:
    """Return the places of a minibatch of ``count`` transitions in all."""
    number = 1 if shards is None else len(shards.columns)
    return number * -(-(count // number) // num_minibatches)


def _seed_of_one(seed: Tensor, shards: Shards | None) -> Tensor:
    """Return the seed of the one shard of a process."""
    return seed if shards is None else shards.seeds(seed)[0]


def _in_all(index: Tensor, columns: Tensor, width: int) -> Tensor:
    """Return indices into R * B transitions for those into the transitions of a shard."""
    return index // len(columns) * width + columns[index % len(columns)]
