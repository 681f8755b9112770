"""Transitions in which an agent has a choice, by the kernel of ``kernels/returns/choices.cu``.

A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import functools
from itertools import accumulate

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import CHOICES
from gpu_vecenv.spec.roles import Group

TILE = CHOICES.macros["TILE"]


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
    choice, rows = torch.empty_like(valid), valid.numel()
    agent, agents = (mask.stride(2), valid.shape[2]) if valid.dim() > 2 else (0, 1)
    call = Call(
        CHOICES, mask.device, step=mask.stride(0), sample=mask.stride(1), agent=agent, agents=agents, rows=rows,
        columns=rows // max(1, len(valid)), entries=len(choices), mask=mask, valid=valid,
    )  # fmt: skip
    call.args.ends, call.args.choice = _ends(choices, mask.device).data_ptr(), choice.data_ptr()
    call.launch("gv_choices", -(-rows // TILE), rows * mask.shape[-1])
    return choice


@functools.cache
def _ends(choices: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the end of the choices of each entry, int32."""
    return torch.tensor(list(accumulate(choices)), dtype=torch.int32, device=device)
