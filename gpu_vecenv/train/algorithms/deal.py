"""Deals transitions into minibatches, in random order and without those that do not count.

The kernel is ``kernels/learner/deal.cu``. The order is a function of a seed and of the number of transitions that count, with the
same integers on every device. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import DEAL

TILE = 512
"""Places or transitions of a team, ``GV_TILE`` of the kernels."""

SMALL = 2048
"""Below this many places or transitions a second CPU thread saves less time than it takes to wake it."""


class Transitions(NamedTuple):
    """Transitions of an update, S in all."""

    valid: Tensor
    """bool (S,), True for those that count."""
    numbers: Tensor | None = None
    """int32 (S,), how many count, up to and with each; None if all count."""
    chosen: Tensor | None = None
    """int32 (S,), those that count, in their order; its end is undefined. None if all count."""


def choose(valid: Tensor, all_valid: bool = False) -> Transitions:
    """List the transitions that count, once for all deals of an update.

    Args:
        valid: bool (S,).
        all_valid: the caller knows that all count; ``valid`` is then not read.
    """
    if all_valid:
        return Transitions(valid)
    found = Transitions(valid.contiguous(), valid.cumsum(0, dtype=torch.int32), torch.empty_like(valid, dtype=torch.int32))
    _launch("gv_choose", found, len(valid))
    return found


def deal(transitions: Transitions, num_minibatches: int, seed: Tensor, number: int = 0) -> tuple[Tensor, Tensor]:
    """Deal the valid transitions into minibatches whose numbers of them differ by one at most.

    Shapes do not depend on how many transitions are valid. Slots that are left over repeat valid transitions, so that a
    transition that does not count is never read; if none is valid, the slots hold any transitions.

    Args:
        transitions: the transitions, S in all.
        num_minibatches: M.
        seed: int64 ().
        number: is added to the seed; the sum is different for every deal.

    Returns:
        index: int64 (M, b), transitions of each minibatch, b = S / M rounded up.
        used: bool (M, b), False for slots that are left over.
    """
    index = torch.empty((num_minibatches, _slots(transitions, num_minibatches)), dtype=torch.int64, device=seed.device)
    used = torch.empty_like(index, dtype=torch.bool)
    _deal(transitions, index, seed=seed, deal=number, index=index, used=used)
    return index, used


def deal_samples(transitions: Transitions, num_minibatches: int, seed: Tensor, number: int, orders: int) -> Tensor:
    """Deal several times as ``deal()`` does, with the numbers from ``number`` on.

    Returns:
        int32 (orders, M, b), the transitions, and -1 for slots that are left over.
    """
    shape = (orders, num_minibatches, _slots(transitions, num_minibatches))
    samples = torch.empty(shape, dtype=torch.int32, device=seed.device)
    _deal(transitions, samples[0], orders, seed=seed, deal=number, samples=samples)
    return samples


def _slots(transitions: Transitions, num_minibatches: int) -> int:
    """Return b, slots of a minibatch."""
    return -(-len(transitions.valid) // num_minibatches)


def _deal(transitions: Transitions, order: Tensor, orders: int = 1, **members: Tensor | int) -> None:
    """Deal ``orders`` times into arrays of which ``order``, of shape (M, b), is one order."""
    minibatches, places = order.shape
    _launch("gv_deal", transitions, order.numel(), orders, minibatches=minibatches, places=places, **members)


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/learner/deal.cu``, which asserts its size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in (
            "seed", "valid", "numbers", "chosen", "index", "used", "samples", "invalid_actions",
        )),
        *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents", "size", "minibatches", "places", "deal")),
    )  # fmt: skip


def _launch(name: str, transitions: Transitions, count: int, times: int = 1, **members: Tensor | int) -> None:
    """Run a kernel over ``count`` places or transitions, some times."""
    tiles = times * -(-count // TILE)
    args = _Args(num_worlds=tiles, num_agents=1, size=len(transitions.valid))
    for member, value in {**transitions._asdict(), **members}.items():
        setattr(args, member, value.data_ptr() if isinstance(value, Tensor) else value)
    launches(DEAL, transitions.valid.device).launch(name, args, tiles, times * count < SMALL)
