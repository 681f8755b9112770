"""Loss of minibatches of units with few rows, by the kernels of ``kernels/learner/q_loss.cu``.

A kernel computes a loss and its derivatives by the values of all choices, so that autograd begins there. A CUDA graph can record
an update if another one was made before.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import Q_LOSS
from gpu_vecenv.train.algorithms.pqn.teams import Teams

TILE = Q_LOSS.macros["TILE"]
MOST_ROWS = 8
"""Most rows of a unit. One lane computes those of a unit one after the other."""


class MinibatchLoss:
    """Losses of the minibatches of one update, and sums over them.

    Attributes:
        sums: float32 (4,), sums of loss, mean value, norm of the gradient and 1 over the steps that were taken.
    """

    @staticmethod
    def takes(teams: Teams) -> bool:
        """Return True if units are single samples with few rows."""
        return teams.samples.shape[1] == 1 and teams.width <= MOST_ROWS

    def __init__(self, teams: Teams, action: Tensor, first: Tensor, of_rollout: dict[str, Tensor], scale: float) -> None:
        """Prepare the launches.

        Args:
            teams: units of the rollout, which has T steps.
            action: int32, (T * U * W * k,) in any shape.
            first: int32 (k,), the first choice of each entry of an action.
            of_rollout: ``target``, ``learned`` and ``valid`` of ``Targets``.
            scale: factor of the derivatives.
        """
        self.sums = torch.zeros(4, dtype=torch.float32, device=first.device)
        self._call = Call(
            Q_LOSS, first.device, width=teams.width, entries=len(first), sums_rows=teams.sums, action=action.contiguous(),
            first=first, **of_rollout, scale=scale, sums=self.sums,
        )  # fmt: skip
        self._learned = of_rollout["learned"]

    def totals(self, index: Tensor, used: Tensor) -> Tensor:
        """Return the teams that are learned from of each minibatch, float32 (M,).

        Args:
            index: int64 (M, b), units of the minibatches.
            used: bool (M, b), False for units that fill a minibatch up.
        """
        return (self._learned[index] & used.unsqueeze(-1)).flatten(1).sum(1).float()

    def slopes(self, values: Tensor, **minibatch: Any) -> Tensor:
        """Return the derivatives by the values, of their shape.

        Args:
            values: float32 (b * W, choices), or with further axes.
            minibatch: of a minibatch ``index``, ``used`` and ``total``, see ``totals()``.
        """
        values = values.detach().contiguous()
        slopes, units = torch.empty_like(values), len(minibatch["index"])
        tiles = -(-units // TILE)
        terms = values.new_empty(tiles, 2)
        choices = values.shape[-1]
        self._call.set(units=units, choices=choices, tiles=tiles, values=values, slopes=slopes, terms=terms, **minibatch)
        self._call.launch("gv_q_loss", tiles, values.numel())
        return slopes

    def add(self, norm: Tensor, taken: Tensor) -> None:
        """Add the numbers of the last minibatch to the sums.

        Args:
            norm: float32 (), norm of its gradient.
            taken: bool (), its step was taken.
        """
        self._call.set(norm=norm, taken=taken)
        self._call.launch("gv_q_sums", 1)
