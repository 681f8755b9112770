"""Units of a policy's samples, and the teams inside them whose values are summed."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.shards import Shards
from gpu_vecenv.train.storage.policy_rows import PolicyRows


class Teams:
    """U units of W rows each. Minibatches are made of units; a team is a whole unit, or each of its rows.

    With ``none`` a unit is a sample, and each row is a team of its own. With ``vdn`` a unit is a world, and its rows, the agents
    of the policy in it, are one team.

    Attributes:
        samples: int64 (U, S), the samples of each unit.
        sums: True if a team is a whole unit.
        width: W.
    """

    def __init__(self, rows: PolicyRows, mixing: Literal["none", "vdn"]) -> None:
        """Find the samples of each unit."""
        self.sums = mixing == "vdn"
        counts, worlds = [len(each) for each in rows.worlds], rows.spans[0].num_worlds
        indices = torch.arange(sum(counts), dtype=torch.int64, device=rows.worlds[0].device)
        by_span = [part.view(worlds, -1) for part in indices.split(counts)] if self.sums else [indices.unsqueeze(1)]
        self.samples = torch.cat(by_span, 1)
        self.in_order = len(by_span) == 1  # the samples of a unit follow each other
        self.width = self.samples.shape[1] * math.prod(rows.shape[1:])

    @property
    def count(self) -> int:
        """U."""
        return len(self.samples)

    def shards_of(self, setup: Setup) -> Shards | None:
        """Return ``Setup.shards`` with units in place of samples."""
        shards = setup.shards
        if shards is None or not self.sums:
            return shards
        worlds = torch.arange(self.count, dtype=torch.int64, device=self.samples.device)
        return Shards.of(worlds, shards.first, len(shards.columns), self.count)

    def united(self, x: Tensor) -> Tensor:
        """Return an array (T, B[, a]) of samples by unit, (T, U, W)."""
        return (x if self.in_order else x[:, self.samples]).reshape(len(x), self.count, -1)

    def total(self, x: Tensor) -> Tensor:
        """Return the sum over each team, (..., K) of (..., W), where K is 1 for units that are teams, and else W."""
        return x.sum(-1, keepdim=True) if self.sums else x

    def any(self, flags: Tensor) -> Tensor:
        """Return True where a flag of a team is True, bool (..., K) of (..., W)."""
        return flags.any(-1, keepdim=True) if self.sums else flags

    def place(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return step and sample of the samples of units, each int64 (b * S,), by their indices into the T * U units, (b,)."""
        step, unit = index // self.count, index % self.count
        if self.samples.shape[1] == 1:
            return step, unit
        sample = self.samples[unit]
        return step.unsqueeze(1).expand_as(sample).flatten(), sample.flatten()
