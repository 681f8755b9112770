"""Policies: they choose actions for rows of observations and evaluate actions for PPO."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_vecenv.train.config import NetworkConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.distributions import Categorical, DiagonalGaussian, Distribution, MultiCategorical
from gpu_vecenv.train.returns.normalize import RunningNorm
from gpu_vecenv.vector.random_actions import uniform_actions

_ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU}


class Policy(nn.Module, ABC):
    """Interface between policies, the collector and the update.

    A policy is a module, so ``state_dict`` holds its parameters and running statistics. The collector calls ``act()`` alone. The
    update calls ``value()`` and ``evaluate_actions()``, both on rows in any order. A recurrent policy would need an update that
    keeps the steps of a row together.
    """

    @abstractmethod
    def act(
        self, obs: Tensor, generator: torch.Generator, deterministic: bool = False, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Choose an action for every row.

        Args:
            obs: float32 (B, F), not normalised.
            generator: source of randomness, on the device of ``obs``.
            deterministic: take the likeliest action instead of a draw.
            mask: bool (B, M), True where a choice is allowed, of the masked entries of an action side by side; None allows all.

        Returns:
            action: (B,) or (B, k), integers or float32.
            log_prob: float32 (B,), of that action.
        """

    @abstractmethod
    def value(self, obs: Tensor) -> Tensor:
        """Return the expected discounted return, in units of the rewards that the policy learns from.

        Args:
            obs: float32 (..., F).

        Returns:
            float32 (...).
        """

    @abstractmethod
    def evaluate_actions(
        self, obs: Tensor, action: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Evaluate actions taken earlier, with gradients.

        Args:
            obs: float32 (B, F).
            action: (B,) or (B, k).
            mask: the mask under which the actions were taken, see ``act()``.

        Returns:
            log_prob, entropy (nats) and value, each float32 (B,).
        """

    def observe(self, obs: Tensor, valid: Tensor) -> None:
        """Update the policy's running statistics, if it keeps any, with a rollout's observations.

        The update calls this at its end, so that a rollout and its update scale observations in the same way.

        Args:
            obs: float32 (T, n, F).
            valid: bool (T, n), False for rows to leave out.
        """


def _layer(size_in: int, size_out: int, gain: float, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(size_in, size_out)
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def mlp(
    size_in: int, network: NetworkConfig, size_out: int, gain: float, generator: torch.Generator
) -> nn.Sequential:
    """Build a feed-forward network with orthogonal weights and zero biases.

    Args:
        size_in: input features.
        network: hidden layers.
        size_out: outputs.
        gain: scale of the last layer's weights; that of hidden layers is sqrt(2).
        generator: source of the weights, a CPU generator, so that weights do not depend on the device.
    """
    layers: list[nn.Module] = []
    for size in network.hidden_sizes:
        layers += [_layer(size_in, size, math.sqrt(2.0), generator), _ACTIVATIONS[network.activation]()]
        size_in = size
    return nn.Sequential(*layers, _layer(size_in, size_out, gain, generator))


class ActorCritic(Policy):
    """Feed-forward actor and critic for Discrete, MultiDiscrete and Box actions."""

    def __init__(
        self,
        num_features: int,
        action_space: gymnasium.Space,
        network: NetworkConfig,
        generator: torch.Generator,
        normalize_observations: bool = True,
        masked: Sequence[int] | None = None,
    ):
        """Build both networks.

        Args:
            num_features: F.
            action_space: one agent's space.
            network: hidden layers, the same for actor and critic.
            generator: source of the initial weights, a CPU generator.
            normalize_observations: shift and scale inputs by running statistics.
            masked: numbers of the action entries that masks cover; None if they cover all.

        Raises:
            ConfigError: the action space is of another kind.
        """
        super().__init__()
        self.sizes, num_outputs = _outputs(action_space)
        self.masked = masked
        # Small weights in the last layer make the first policy near-uniform for every observation.
        self.actor = mlp(num_features, network, num_outputs, 0.01, generator)
        self.critic = mlp(num_features, network, 1, 1.0, generator)
        if self.sizes is None:
            self.log_std = nn.Parameter(torch.zeros(num_outputs))
        self.discrete = isinstance(action_space, spaces.Discrete)
        self.obs_norm = RunningNorm((num_features,)) if normalize_observations else None

    def distribution(self, obs: Tensor, mask: Tensor | None = None) -> Distribution:
        """Return the action distribution.

        Args:
            obs: float32 (B, F), as the env returns it.
            mask: see ``act()``. Box actions take no mask.
        """
        outputs = self.actor(self._normalized(obs))
        if self.sizes is None:
            return DiagonalGaussian(outputs, self.log_std)
        return Categorical(outputs, mask) if self.discrete else MultiCategorical(outputs, self.sizes, mask, self.masked)

    def act(
        self, obs: Tensor, generator: torch.Generator, deterministic: bool = False, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``."""
        distribution = self.distribution(obs, mask)
        action = distribution.mode() if deterministic else distribution.sample(generator)
        return action, distribution.log_prob(action)

    def value(self, obs: Tensor) -> Tensor:
        """See ``Policy.value()``."""
        value: Tensor = self.critic(self._normalized(obs))
        return value.squeeze(-1)

    def evaluate_actions(
        self, obs: Tensor, action: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``Policy.evaluate_actions()``."""
        distribution = self.distribution(obs, mask)
        return distribution.log_prob(action), distribution.entropy(), self.value(obs)

    def observe(self, obs: Tensor, valid: Tensor) -> None:
        """See ``Policy.observe()``."""
        if self.obs_norm is not None:
            self.obs_norm.update(obs, valid)

    def _normalized(self, obs: Tensor) -> Tensor:
        return obs if self.obs_norm is None else self.obs_norm(obs)


class RandomPolicy(Policy):
    """Uniform random actions, for opponents and baselines; never trained."""

    low: Tensor
    high: Tensor

    def __init__(self, action_space: gymnasium.Space, masked: Sequence[int] | None = None):
        """Store the space.

        Args:
            action_space: one agent's space; a Box must be bounded.
            masked: numbers of the action entries that masks cover; None if they cover all.

        Raises:
            ConfigError: the action space is of another kind, or an unbounded Box.
        """
        super().__init__()
        self.sizes, self.num_outputs = _outputs(action_space)
        self.space, self.masked = action_space, masked
        if isinstance(action_space, spaces.Box):
            if not action_space.is_bounded():
                raise ConfigError(f"random policy: expected a bounded action space, got {action_space}")
            self.register_buffer("low", torch.as_tensor(action_space.low))
            self.register_buffer("high", torch.as_tensor(action_space.high))

    def act(
        self, obs: Tensor, generator: torch.Generator, deterministic: bool = False, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw an allowed action; ``deterministic`` changes nothing, and the log-probabilities are 0 (unused)."""
        unused = obs.new_zeros(obs.shape[0])
        if mask is not None and self.sizes is not None:
            logits = obs.new_zeros(obs.shape[0], self.num_outputs)
            if isinstance(self.space, spaces.Discrete):
                return Categorical(logits, mask).sample(generator), unused
            return MultiCategorical(logits, self.sizes, mask, self.masked).sample(generator), unused
        bounds = (self.low, self.high) if isinstance(self.space, spaces.Box) else None
        return uniform_actions(self.space, obs.shape[:1], generator, bounds), unused

    def value(self, obs: Tensor) -> Tensor:
        """Return zeros: the policy is never trained."""
        return obs.new_zeros(obs.shape[:-1])

    def evaluate_actions(
        self, obs: Tensor, action: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return zeros: the policy is never trained."""
        zeros = obs.new_zeros(obs.shape[:-1])
        return zeros, zeros, zeros


def _outputs(space: gymnasium.Space) -> tuple[list[int] | None, int]:
    """Return the choices of each action entry (None for continuous actions) and the number of network outputs."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)], int(space.n)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        sizes = [int(n) for n in space.nvec]
        return sizes, sum(sizes)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return None, int(space.shape[0])
    raise ConfigError(f"action space: expected Discrete, flat MultiDiscrete or flat Box, got {space}")
