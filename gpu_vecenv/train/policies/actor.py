"""Policies of off-policy algorithms: an actor without a value, whose continuous actions stay within finite bounds."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import cast

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from gpu_vecenv.backend.private import call_layers
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.config.network import NetworkConfig
from gpu_vecenv.train.config.off_policy import OffPolicyConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.actor_critic import require_actions
from gpu_vecenv.train.policies.agent_ids import AgentIds, with_id_features
from gpu_vecenv.train.policies.box_scale import BoxScale
from gpu_vecenv.train.policies.build import weight_seed
from gpu_vecenv.train.policies.contract import Draw, Evaluated, Inputs, Observation, Policy
from gpu_vecenv.train.policies.distributions import Categorical
from gpu_vecenv.train.policies.draw import draw_choices, draw_normal
from gpu_vecenv.train.policies.layer_norm import norm_by_kernels
from gpu_vecenv.train.policies.networks import NetworkSpec, WorldSpec, uniform_layers
from gpu_vecenv.train.policies.observations import ObservationNorm, is_vector
from gpu_vecenv.train.policies.squash import squash

CALL_LAYERS = call_layers(norm_by_kernels)
LOG_STD = (-20.0, 2.0)
"""Bounds of the logarithm of the deviation, as in the code of Haarnoja et al. 2018."""
READ = ("hidden_sizes", "activation", "agent_ids", "layer_norm")
"""Options of a network that actors and critics of off-policy algorithms read."""


class ActorPolicy(Policy):
    """Chooses actions by a feed-forward network; values belong to the critics of its algorithm."""

    export_names: tuple[str, ...]
    """Names of what ``exported()`` returns."""

    def __init__(self, group: Group, network: NetworkConfig, normalize: bool, seed: int, name: str, num_ids: int):
        """Build the network on the CPU.

        Args:
            group: agents with the spaces of this policy.
            network: shape of the network.
            normalize: shift and scale observations that are vectors by running statistics; images stay as they are.
            seed: seed of the weights.
            name: name of the policy, for messages.
            num_ids: agents in a world, if the network reads which one a row is; 0 if it does not.
        """
        super().__init__()
        self.group, self.name = group, name
        spec, generator = NetworkSpec.of(with_id_features(group, num_ids)), torch.Generator("cpu").manual_seed(seed)
        self.num_features = sum(spec.parts)
        self.network = uniform_layers(spec, self.outputs_of(spec.num_outputs), network, generator)
        self.obs_norm = ObservationNorm(group) if normalize and is_vector(group.observation) else None
        self.ids = AgentIds(num_ids) if num_ids else None

    @staticmethod
    def outputs_of(entries: int) -> int:
        """Return the outputs of the network for a number of choices, or of numbers of an action."""
        return entries

    def features(self, obs: Observation, agent: Tensor | None) -> Observation:
        """Return what networks read of observations as the env writes them: normalised, with the numbers of agents."""
        read = self.normalized(obs)
        return read if self.ids is None else self.ids.forward(read, cast(Tensor, agent))

    def outputs(self, features: Observation, network: nn.Sequential | None = None) -> Tensor:
        """Return the outputs of the network, or of another one of its shape, float32 (B[, a], outputs)."""
        return CALL_LAYERS(self.network if network is None else network, features).float()

    def evaluate(self, inputs: Inputs, action: Tensor) -> Evaluated:
        """Raise NotImplementedError: the algorithm has the values."""
        raise NotImplementedError(f"policy {self.name!r} has no values")

    def value(self, inputs: Inputs) -> Tensor:
        """Raise NotImplementedError: the algorithm has the values."""
        raise NotImplementedError(f"policy {self.name!r} has no values")

    def normalized(self, obs: Observation) -> Observation:
        """See ``Policy.normalized()``."""
        return obs if self.obs_norm is None else self.obs_norm.forward(obs)

    def observe(self, obs: Observation, valid: Tensor, critic: Tensor | None = None) -> None:
        """See ``Policy.observe()``; this policy reads no inputs of a critic."""
        if self.obs_norm is not None:
            self.obs_norm.update(obs, valid)

    @abstractmethod
    def exported(self, outputs: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return what an exported file returns for outputs of the network: first the likeliest action in the env's units."""


class _BoundedActor(ActorPolicy):
    """Numbers within finite bounds, which are -1 and 1 in normalised units."""

    low: Tensor
    high: Tensor

    def __init__(self, group: Group, network: NetworkConfig, normalize: bool, seed: int, name: str, num_ids: int):
        super().__init__(group, network, normalize, seed, name, num_ids)
        box = cast(Box, group.action)
        self.box = BoxScale(box)
        for bound, value in (("low", box.low), ("high", box.high)):
            self.register_buffer(bound, torch.tensor(value, dtype=torch.float32, device="cpu"), persistent=False)

    def env_actions(self, action: Tensor) -> Tensor:
        """See ``Policy.env_actions()``; rounding leads to no number beyond a bound."""
        return self.box.to_env(action).clamp_(self.low, self.high)

    def normalized_actions(self, action: Tensor) -> Tensor:
        """See ``Policy.normalized_actions()``."""
        return self.box.to_normalized(action)


class SquashedGaussian(_BoundedActor):
    """Draws from a normal distribution, whose mean and deviation depend on the observation, and takes the hyperbolic tangent.

    Source: Haarnoja et al. 2018, arXiv 1812.05905, appendix C. Log-probabilities are those of actions in normalised units.
    """

    export_names = ("action", "mean", "log_std")

    def __init__(self, group: Group, network: NetworkConfig, normalize: bool, seed: int, name: str, num_ids: int):
        """See ``ActorPolicy``."""
        super().__init__(group, network, normalize, seed, name, num_ids)
        self.register_buffer("zeros", torch.zeros(group.num_entries, dtype=torch.float32, device="cpu"), persistent=False)

    @staticmethod
    def outputs_of(entries: int) -> int:
        """Return a mean and a deviation for each number."""
        return 2 * entries

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``; the likeliest action is taken for that of the likeliest number before the tangent."""
        outputs = self.outputs(self.features(inputs.obs, draw.agent))
        mean = torch.zeros_like(outputs[..., : self.group.num_entries])
        noise = draw_normal(mean, cast(Tensor, self.zeros), draw, deterministic).action
        action, log_prob = squashed_outputs(outputs, noise)
        return self.env_actions(action), log_prob

    def exported(self, outputs: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the action, and mean and log_std of the normal distribution before the tangent, in normalised units."""
        mean, log_std = gaussian(outputs)
        return self.env_actions(torch.tanh(mean)), mean, log_std


def gaussian(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the logarithm of the deviation, each float32 (..., k), of outputs (..., 2 k)."""
    mean, log_std = outputs.chunk(2, dim=-1)
    return mean, log_std.clamp(*LOG_STD)


def squashed_outputs(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions in (-1, 1), float32 (..., k), and their log-densities, float32 (...).

    With ``u = mean + exp(log_std) noise`` and ``a = tanh(u)`` the log-density is that of u minus the sum of ``log(1 - a^2)``
    (Haarnoja et al. 2018, arXiv 1812.05905, equation 26), which is ``2 (log 2 - u - softplus(-2 u))`` without cancellation.

    Args:
        outputs: float32 (..., 2 k), see ``gaussian()``.
        noise: float32 (..., k), standard normal.
    """
    return squash(outputs, noise, *LOG_STD)


class Deterministic(_BoundedActor):
    """Takes the hyperbolic tangent of the outputs; noise for exploration belongs to the algorithm.

    Source: Lillicrap et al. 2016, arXiv 1509.02971, section 7.
    """

    export_names = ("action",)

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``; there is no draw, so ``deterministic`` changes nothing, and log-probabilities are 0."""
        action = torch.tanh(self.outputs(self.features(inputs.obs, draw.agent)))
        return self.env_actions(action), action.new_zeros(action.shape[:-1])

    def exported(self, outputs: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the action."""
        return (self.env_actions(torch.tanh(outputs)),)


class SoftChoices(ActorPolicy):
    """Draws a choice for each entry of a Discrete or MultiDiscrete action, among those that its mask allows."""

    export_names = ("action", "logits")

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``."""
        group, outputs = self.group, self.outputs(self.features(inputs.obs, draw.agent))
        action, log_prob = draw_choices(outputs, group.choices, draw, inputs.mask, group.limited, deterministic, draw.out)[:2]
        return action.squeeze(-1) if isinstance(group.action, Discrete) else action, log_prob

    def exported(self, outputs: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the action and the logarithms of the probabilities of all entries, side by side."""
        group = self.group
        masks = {} if mask is None else dict(zip(group.masked, mask.split(group.masked_choices, dim=-1), strict=True))
        entries = [Categorical(part, masks.get(i)) for i, part in enumerate(outputs.split(group.choices, dim=-1))]
        action = torch.stack([entry.mode() for entry in entries], dim=-1).int()
        logits = torch.cat([entry.log_probs for entry in entries], dim=-1)
        return action.squeeze(-1) if isinstance(group.action, Discrete) else action, logits


def make_soft_policy(
    name: str, group: Group, seed: int, network: NetworkConfig, options: OffPolicyConfig, module: object, learns: bool,
    world: WorldSpec,
) -> ActorPolicy:  # fmt: skip
    """Build the policy of soft actor-critic, see ``register_algorithm()``.

    Raises:
        ConfigError: the action space is not supported, or an option has no effect.
    """
    require_actions(group.action)
    kind = SquashedGaussian if group.continuous else SoftChoices
    return _make(kind, name, group, weight_seed(seed, name), network, options, module, world)


def make_deterministic_policy(
    name: str, group: Group, seed: int, network: NetworkConfig, options: OffPolicyConfig, module: object, learns: bool,
    world: WorldSpec,
) -> ActorPolicy:  # fmt: skip
    """Build the policy of TD3 and DDPG, see ``register_algorithm()``.

    Raises:
        ConfigError: the action space is not supported, or an option has no effect.
    """
    if not group.continuous:
        raise ConfigError(f"policy {name!r}: TD3 and DDPG learn numbers; expected a flat Box as action space, got {group.action}")
    require_actions(group.action)
    return _make(Deterministic, name, group, weight_seed(seed, name), network, options, module, world)


def _make(
    kind: type[ActorPolicy], name: str, group: Group, seed: int, network: NetworkConfig, options: OffPolicyConfig, module: object,
    world: WorldSpec,
) -> ActorPolicy:  # fmt: skip
    """Build a policy, and refuse what would have no effect."""
    if module is not None:
        raise ConfigError(f"policy {name!r}: its algorithm builds the networks from NetworkConfig; expected no module, got one")
    for each in dataclasses.fields(NetworkConfig):
        value, usual = getattr(network, each.name), each.default
        if each.name not in READ and value != usual:
            raise ConfigError(f"policy {name!r}: network.{each.name} has no effect; expected {usual!r}, got {value!r}")
    if isinstance(group.action, Box):
        width = group.action.high.astype(np.float64) - group.action.low.astype(np.float64)
        if not (np.isfinite(width) & (width > 0)).all():
            raise ConfigError(f"policy {name!r}: expected actions with finite bounds, low below high, got {group.action}")
    num_ids = world.num_agents if network.agent_ids else 0
    return kind(group, network, options.normalize_observations, seed, name, num_ids)
