"""State of a policy that takes one from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gpu_vecenv.train.storage.policy_rows import PolicyRows


class RowStates:
    """The state of each row of a policy. It is zeros where an episode or a life begins, in every autoreset mode.

    Attributes:
        shape: see ``Policy.state_shape``.
        now: float32 (B[, a], *state_shape), before the next step. Between rollouts it belongs to slot T.
        first: the same before step 0 of the rollout.
    """

    def __init__(self, rows: PolicyRows, shape: tuple[int, ...]) -> None:
        """Start with zeros.

        Args:
            rows: rows of the policy.
            shape: see ``Policy.state_shape``.
        """
        self._rows, self.shape = rows, shape
        self.now, self.first = torch.zeros(2, *rows.shape, *shape, dtype=torch.float32, device=rows.rollout.reward.device)
        self.by_span = self.now.split([len(worlds) for worlds in rows.worlds])

    def begin(self, t: Tensor) -> None:
        """Begin a rollout.

        Args:
            t: int32 (N, 1), steps of each world's episode that are done; 0 also where a caller has reset a world meanwhile.
        """
        new = t == 0
        for span, states in zip(self._rows.spans, self.by_span, strict=True):
            self._forget(states, new.expand(-1, span.agents))
        self.first.copy_(self.now)

    def end_step(self, t: Tensor, step: int) -> None:
        """Forget the states of rows whose next transition begins an episode or a life, as ``TransitionMasks.episode_end`` has it.

        Args:
            t: see ``begin()``, after the step and an autoreset.
            step: number of the step in the rollout.
        """
        rollout, new = self._rows.rollout, t == 0
        for span, states in zip(self._rows.spans, self.by_span, strict=True):
            ends = new.expand(-1, span.agents)
            if rollout.alive_next is not None:
                before = rollout.alive_start if step == 0 else rollout.alive_next[step - 1]
                alive = before & rollout.alive_next[step]
                ends = ends | ~alive.narrow(1, span.first_agent + span.members.lo, span.agents)
            self._forget(states, ends)

    def _forget(self, states: Tensor, ends: Tensor) -> None:
        """Fill the states of an agent span with zeros where ``ends``, bool (N, a)."""
        formed = self._rows.formed(ends, 0)
        states.masked_fill_(formed.view(*formed.shape, *[1] * len(self.shape)), 0.0)
