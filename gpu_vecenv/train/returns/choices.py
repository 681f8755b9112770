"""Transitions in which an agent has a choice, by the kernel of ``kernels/returns/choices.cu``.

A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import ctypes
import functools
from itertools import accumulate

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import CHOICES
from gpu_vecenv.spec.roles import Group

TILE = 128
"""Rows of a team, ``GV_TILE`` of the kernel."""

SMALL = 1 << 14
"""Below this many bytes of masks a second CPU thread saves less time than it takes to wake it."""


def may_lack_choice(group: Group) -> bool:
    """True if masks and flags of effect can leave an agent of the group without a choice: no other entry has two or more."""
    free = set(range(len(group.choices))) - set(group.limited)
    return bool(group.limited) and all(group.choices[entry] < 2 for entry in free)


def have_choice(mask: Tensor, choices: tuple[int, ...], valid: Tensor) -> Tensor:
    """Return which transitions count and allow two choices of one entry at least, bool (T, B[, a]).

    Args:
        mask: bool (S, B[, a], M), S >= T, of any strides: the choices of all masked entries, side by side.
        choices: number of choices of each masked entry; M in all.
        valid: bool (T, B[, a]), False for transitions that do not count.
    """
    mask, valid = mask if mask.stride(-1) == 1 else mask.contiguous(), valid.contiguous()
    found, ends = torch.empty_like(valid), _ends(choices, mask.device)
    args = _Args(num_agents=1, rows=valid.numel(), columns=valid[0].numel(), agents=1, entries=len(choices))
    args.step, args.sample = mask.stride()[:2]
    if valid.dim() > 2:
        args.agent, args.agents = mask.stride(2), valid.shape[2]
    args.mask, args.ends, args.valid, args.choice = (array.data_ptr() for array in (mask, ends, valid, found))
    args.num_worlds = -(-valid.numel() // TILE)
    if args.num_worlds:
        small = valid.numel() * mask.shape[-1] < SMALL
        launches(CHOICES, mask.device).launch("gv_choices", args, args.num_worlds, small)
    return found


@functools.cache
def _ends(choices: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the end of the choices of each entry, int32."""
    return torch.tensor(list(accumulate(choices)), dtype=torch.int32, device=device)


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/returns/choices.cu``, which asserts its size."""

    _fields_ = (
        ("mask", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("step", "sample", "agent")),
        *((name, ctypes.c_void_p) for name in ("ends", "valid", "choice", "invalid_actions")),
        ("rows", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents", "columns", "agents", "entries", "unused")),
    )
