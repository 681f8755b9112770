"""Deals transitions into minibatches, in random order and without those that do not count."""

from __future__ import annotations

import torch
from torch import Tensor

LAST_KEY = 2**31 - 1
"""Sort key of transitions that do not count; random keys are smaller."""


def random_keys(count: int, seed: Tensor) -> Tensor:
    """Return a random number for each of ``count`` indices, int32 in [0, 2^31 - 2].

    It is the finaliser of SplitMix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators"), which needs no
    state and gives the same numbers on every device.

    Args:
        count: number of indices.
        seed: int64 (), different for every deal.
    """
    x = torch.arange(1, count + 1, device=seed.device) * -0x61C8864680B583EB + seed  # odd constant 0x9E3779B97F4A7C15
    x = (x ^ _shifted(x, 30)) * -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
    x = (x ^ _shifted(x, 27)) * -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB
    x = x ^ _shifted(x, 31)
    return _shifted(x, 33).clamp(max=LAST_KEY - 1).int()


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift int64 numbers right and fill with zeros."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def deal(valid: Tensor, num_minibatches: int, seed: Tensor) -> tuple[Tensor, Tensor]:
    """Deal the valid transitions into minibatches whose numbers of them differ by one at most.

    Shapes do not depend on how many transitions are valid. Slots that are left over repeat valid transitions, so that a
    transition that does not count is never read; if none is valid, the slots hold any transitions.

    Args:
        valid: bool (S,).
        num_minibatches: M.
        seed: int64 (), different for every deal.

    Returns:
        index: int64 (M, b), transitions of each minibatch, b = S / M rounded up.
        used: bool (M, b), False for slots that are left over.
    """
    keys = torch.where(valid, random_keys(len(valid), seed), LAST_KEY)
    order = torch.sort(keys, stable=True).indices  # valid transitions come first
    count = valid.sum()
    size = -(-len(valid) // num_minibatches)
    place = torch.arange(size * num_minibatches, device=valid.device).view(size, num_minibatches).t()
    return order[place % count.clamp(min=1)], place < count
