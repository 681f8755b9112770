"""Shuffles transitions into minibatches, in random order and without those that do not count.

The kernel is ``kernels/learner/shuffle.cu``. The order is a function of a seed and of the number of transitions that count, with
the same integers on every device. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import SHUFFLE

TILE = SHUFFLE.macros["TILE"]


class Transitions(NamedTuple):
    """Transitions of an update, S in all."""

    valid: Tensor
    """bool (S,), True for those that count."""
    running_count: Tensor | None = None
    """int32 (S,), how many count, up to and with each; None if all count."""
    chosen: Tensor | None = None
    """int32 (S,), those that count, in their order; its end is undefined. None if all count."""


def choose(valid: Tensor, all_valid: bool = False) -> Transitions:
    """List the transitions that count, once for all shuffles of an update.

    Args:
        valid: bool (S,).
        all_valid: the caller knows that all count; ``valid`` is then not read.
    """
    if all_valid:
        return Transitions(valid)
    transitions = Transitions(valid.contiguous(), valid.cumsum(0, dtype=torch.int32), torch.empty_like(valid, dtype=torch.int32))
    _launch("gv_choose", transitions, len(valid))
    return transitions


def shuffle(transitions: Transitions, num_minibatches: int, seed: Tensor, number: int = 0) -> tuple[Tensor, Tensor]:
    """Shuffle the valid transitions into minibatches whose numbers of them differ by one at most.

    Shapes do not depend on how many transitions are valid. Slots that are left over repeat valid transitions, so that a
    transition that does not count is never read; if none is valid, the slots hold any transitions.

    Args:
        transitions: the transitions, S in all.
        num_minibatches: M.
        seed: int64 ().
        number: is added to the seed; the sum is different for every shuffle.

    Returns:
        index: int64 (M, b), transitions of each minibatch, b = S / M rounded up.
        used: bool (M, b), False for slots that are left over.
    """
    places = _places(transitions, num_minibatches)
    index = torch.empty((num_minibatches, places), dtype=torch.int64, device=seed.device)
    used = torch.empty_like(index, dtype=torch.bool)
    _launch(
        "gv_shuffle", transitions, index.numel(), minibatches=num_minibatches, places=places, shuffle=number, seed=seed,
        index=index, used=used,
    )  # fmt: skip
    return index, used


def shuffle_samples(transitions: Transitions, num_minibatches: int, seed: Tensor, number: int, orders: int) -> Tensor:
    """Shuffle several times as ``shuffle()`` does, with the numbers from ``number`` on.

    Returns:
        int32 (orders, M, b), the transitions, and -1 for slots that are left over.
    """
    places = _places(transitions, num_minibatches)
    samples = torch.empty((orders, num_minibatches, places), dtype=torch.int32, device=seed.device)
    _launch(
        "gv_shuffle", transitions, num_minibatches * places, orders, minibatches=num_minibatches, places=places, shuffle=number,
        seed=seed, samples=samples,
    )  # fmt: skip
    return samples


def _places(transitions: Transitions, num_minibatches: int) -> int:
    """Return b, places of a minibatch."""
    return -(-len(transitions.valid) // num_minibatches)


def _launch(name: str, transitions: Transitions, count: int, times: int = 1, **members: Tensor | int) -> None:
    """Run a kernel over ``count`` places or transitions, some times."""
    call = Call(SHUFFLE, transitions.valid.device, size=len(transitions.valid), **transitions._asdict(), **members)
    call.launch(name, times * -(-count // TILE), times * count)
