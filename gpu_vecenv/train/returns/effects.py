"""Masks of policies, from masks and flags of effect of an env, by the kernel of ``kernels/returns/effects.cu``.

A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import EFFECTS
from gpu_vecenv.spec.roles import Group

ITEMS, DEPTH = EFFECTS.macros["ITEMS"], EFFECTS.macros["DEPTH"]


class Limits:
    """Writes the masks of policies of a group with flags of effect.

    A choice of an entry of ``Group.limited`` is allowed if the env's mask allows it, where there is one, and if the flag of the
    entry's group is True. An entry without effect thus has no allowed choice, and policies leave it out as any such entry.
    """

    def __init__(self, group: Group, device: torch.device) -> None:
        """Store which flags each choice depends on."""
        of_mask = {entry: first for entry, first in zip(group.masked, _starts(group.masked_choices), strict=True)}
        of_effect = {entry: number for number, (_, entries) in enumerate(group.effects) for entry in entries}
        sources, groups = [], []
        for entry, choices in zip(group.limited, group.limited_choices, strict=True):
            first = of_mask.get(entry)
            sources += [-1] * choices if first is None else list(range(first, first + choices))
            groups += [of_effect.get(entry, -1)] * choices
        tables = torch.tensor([sources, groups], dtype=torch.int32, device=device)
        self._call = Call(
            EFFECTS, device, columns=len(sources), mask_columns=group.num_choices, num_groups=group.num_effects,
            sources=tables[0], groups=tables[1],
        )  # fmt: skip

    def write(self, out: Tensor, mask: Tensor | None, effects: Tensor) -> None:
        """Write the masks of some rows.

        Args:
            out: bool (rows, sum of ``Group.limited_choices``), contiguous as the others.
            mask: bool (rows, M), masks of the env; None if it has none.
            effects: bool (rows, G), flags of effect.
        """
        args = self._call.args
        args.mask, args.effects, args.out = None if mask is None else mask.data_ptr(), effects.data_ptr(), out.data_ptr()
        args.rows = len(out)
        items = -(-len(out) // DEPTH) * -(-out.shape[1] // 4)
        self._call.launch("gv_limit", -(-items // ITEMS), out.numel())


def _starts(choices: list[int]) -> list[int]:
    """Return the first column of each entry in a mask."""
    return [sum(choices[:number]) for number in range(len(choices))]
