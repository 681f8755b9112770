"""The policy of algorithms that learn values of actions: it takes the action with the largest value."""

from __future__ import annotations

from itertools import accumulate

import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.contract import Acted, Draw, Evaluated, Inputs
from gpu_vecenv.train.policies.distributions import largest
from gpu_vecenv.train.policies.draw import draw_greedy
from gpu_vecenv.train.policies.networks import WorldSpec


class QPolicy(ActorCritic):
    """Chooses Discrete and flat MultiDiscrete actions by their values, the outputs of its network.

    The value of an action is the sum over its entries, ``Q(s, a) = sum_k Q_k(s, a_k)``, so the largest value of all actions is
    the sum of the largest values of the entries. This is the decomposition of Sunehag et al. 2018 (arXiv 1706.05296, equation 1),
    with the entries of an action in place of the agents of a team. An entry without an allowed choice is 0, and so its value is
    that of choice 0.
    """

    first: Tensor

    def __init__(
        self,
        network: nn.Module,
        group: Group,
        normalize_observations: bool = True,
        name: str = "",
        num_ids: int = 0,
        world: WorldSpec = WorldSpec(),  # noqa: B008  (it cannot be changed)
    ):
        """Store the network; see ``ActorCritic``.

        Raises:
            ConfigError: the actions are no choices, or the network has a state or inputs of a critic.
        """
        if isinstance(group.action, Box):
            expected = "expected Discrete or MultiDiscrete actions, as choices have values"
            raise ConfigError(f"policy {name!r}: {expected}, got {group.action}")
        super().__init__(network, group, normalize_observations, name=name, num_ids=num_ids, world=world)
        if self.state_shape is not None or self.critic_sources:
            got = f"a state of {self.state_shape}" if self.critic_sources == () else f"a critic that reads {self.critic_sources}"
            raise ConfigError(f"policy {name!r}: expected a network of values, without a state and without a critic, got {got}")
        first = list(accumulate(self.choices, initial=0))[:-1]
        self.register_buffer("first", torch.tensor(first, dtype=torch.int64, device="cpu"), persistent=False)

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> Acted:
        """Take the greedy action; ``deterministic`` changes nothing. See ``Policy.act()``."""
        return self.explore(inputs, draw, None)

    def explore(self, inputs: Inputs, draw: Draw, epsilon: Tensor | None) -> tuple[Tensor, Tensor]:
        """Take the greedy choice of each entry of an action, or with the probability ``epsilon`` any allowed one.

        Args:
            inputs: see ``Policy.act()``.
            draw: see ``Policy.act()``.
            epsilon: float32 () on the device; None: always greedy.
        """
        values = self.outputs(inputs.obs, draw.agent)
        action, log_prob = draw_greedy(values, self.choices, draw, inputs.mask, self.masked, epsilon, draw.out)[:2]
        return action.squeeze(-1) if self.discrete else action, log_prob

    def evaluate(self, inputs: Inputs, action: Tensor) -> Evaluated:
        """Return the values Q(s, a) of actions, with gradients; log-probability and entropy are 0, those of no chance."""
        values = self.outputs(inputs.obs, inputs.agent)
        places = (action.unsqueeze(-1) if self.discrete else action) + self.first
        value = values.gather(-1, places).sum(-1)
        nothing = torch.zeros_like(value)
        return Evaluated(nothing, nothing, value)

    def value(self, inputs: Inputs) -> Tensor:
        """Return the largest value of an allowed action, max_a Q(s, a), float32 (B,) or (B, a)."""
        return largest(self.outputs(inputs.obs, inputs.agent), self.choices, inputs.mask, self.masked)
