"""The policy that acts uniformly at random."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.actor_critic import require_actions
from gpu_vecenv.train.policies.contract import Draw, Inputs
from gpu_vecenv.train.policies.draw import draw_choices, draw_uniform
from gpu_vecenv.train.policies.fixed import FixedPolicy


class RandomPolicy(FixedPolicy):
    """Uniform random actions, for opponents and baselines; never trained."""

    low: Tensor
    high: Tensor

    def __init__(self, group: Group):
        """Store the actions.

        Args:
            group: agents with the spaces of this policy; the Box that actions are drawn from must be bounded.

        Raises:
            ConfigError: the action space is of another kind, or an unbounded Box.
        """
        super().__init__()
        require_actions(group.action)
        self.discrete, self.choices, self.masked = isinstance(group.action, spaces.Discrete), group.choices, group.limited
        self.continuous = isinstance(group.action, spaces.Box)
        drawn = group.action if group.random_action is None else group.random_action
        if isinstance(drawn, spaces.Box):
            bounds = {"low": drawn.low, "high": drawn.high}
            width = bounds["high"].astype(np.float64) - bounds["low"].astype(np.float64)
            if not (width <= np.finfo(np.float32).max).all():  # a draw multiplies the width by a number
                raise ConfigError(f"random policy: expected bounds with finite float32 distances, got {drawn}")
            for name, bound in bounds.items():
                self.register_buffer(name, torch.tensor(bound, dtype=torch.float32, device="cpu"), persistent=False)

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """Draw an allowed action; ``deterministic`` changes nothing, and the log-probabilities are 0 (unused)."""
        zeros = self.value(inputs)
        if self.continuous:
            return draw_uniform(self.low, self.high, draw).action, zeros
        logits = zeros.unsqueeze(-1).expand(*zeros.shape, sum(self.choices))
        action = draw_choices(logits, self.choices, draw, inputs.mask, self.masked).action
        return action.squeeze(-1) if self.discrete else action, zeros
