"""The policy that acts uniformly at random."""

from __future__ import annotations

import torch
from gymnasium import spaces
from torch import Tensor

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.actor_critic import require_actions
from gpu_vecenv.train.policies.contract import Draw, Evaluated, Inputs, Policy
from gpu_vecenv.train.policies.distributions import Categorical, MultiCategorical
from gpu_vecenv.train.policies.sampling import sample, uniforms


class RandomPolicy(Policy):
    """Uniform random actions, for opponents and baselines; never trained."""

    low: Tensor
    high: Tensor

    def __init__(self, group: Group):
        """Store the actions.

        Args:
            group: agents with the spaces of this policy; a Box must be bounded.

        Raises:
            ConfigError: the action space is of another kind, or an unbounded Box.
        """
        super().__init__()
        require_actions(group.action)
        self.discrete, self.choices, self.masked = isinstance(group.action, spaces.Discrete), group.choices, group.masked
        self.continuous = isinstance(group.action, spaces.Box)
        if isinstance(group.action, spaces.Box):
            if not group.action.is_bounded():
                raise ConfigError(f"random policy: expected a bounded action space, got {group.action}")
            self.register_buffer("low", torch.tensor(group.action.low), persistent=False)
            self.register_buffer("high", torch.tensor(group.action.high), persistent=False)

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """Draw an allowed action; ``deterministic`` changes nothing, and the log-probabilities are 0 (unused)."""
        zeros = self.value(inputs)
        if self.continuous:
            # A weighted mean of both bounds, because their difference may be larger than a float32.
            weight = uniforms(draw, self.low.shape[0])
            return self.low * (1.0 - weight) + self.high * weight, zeros
        logits = zeros.unsqueeze(-1).expand(*zeros.shape, sum(self.choices))
        equal = (
            Categorical(logits, inputs.mask)
            if self.discrete
            else MultiCategorical(logits, self.choices, inputs.mask, self.masked)
        )
        return sample(equal, draw).int(), zeros

    def evaluate(self, inputs: Inputs, action: Tensor) -> Evaluated:
        """Return zeros: the policy is never trained."""
        zeros = self.value(inputs)
        return Evaluated(zeros, zeros, zeros)

    def value(self, inputs: Inputs) -> Tensor:
        """Return zeros: the policy is never trained."""
        obs = inputs.obs
        return obs.new_zeros(obs.shape[:1]) if isinstance(obs, Tensor) else obs["own"].new_zeros(obs["own"].shape[:2])
