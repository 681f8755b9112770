"""Networks of policies: what a network takes and returns, and the built-in feed-forward network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from gpu_vecenv.backend.private import call_layers
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.config import NetworkConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import OBSERVATIONS, SHARED, Observation
from gpu_vecenv.train.policies.layer_norm import norm_by_kernels

CALL_LAYERS = call_layers(norm_by_kernels)
_ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU}


class WorldSpec(NamedTuple):
    """Facts about the worlds of a policy's agents that networks may read."""

    num_agents: int = 0
    """Agents in a world, of all policies, for networks that read which one a row is."""
    policy_agents: int = 1
    """See ``NetworkSpec.agents``."""
    sources: Mapping[str, int] = {}
    """See ``NetworkSpec.sources``."""


@dataclass(frozen=True)
class NetworkSpec:
    """Inputs and outputs of a network.

    A network is a module whose ``forward(obs)`` returns ``(outputs, value)``: float32 (B, num_outputs) and float32 (B,).
    ``obs`` is float32 (B, *shape); with a shared part it is float32 (B, S + P), the shared features first. The module must not
    change it in place, as it may be a part of the rollout.

    If the class of the network sets ``shared_parts = True`` and observations have a shared part, ``obs`` is instead the dict
    ``{"shared": (B, S), "own": (B, a, P)}`` of B worlds with a agents each, and the results are (B, a, num_outputs) and (B, a).
    The network can then read the shared part once a world.

    The class may define the methods ``actor(obs)`` and ``critic(obs)``. They return one of the two results, and save the work for
    the other.

    **State.** If ``state_shape`` of the network is a tuple of integers, its calls take the state before the step, float32
    (B, *state_shape) or (B, a, *state_shape), as their last argument. ``forward(obs, state)`` and ``actor(obs, state)`` return
    the state after the step as their last result; ``critic(obs, state)`` returns the value alone. The class may define
    ``sequence(obs, state, episode_end)``, which runs its layers once over L consecutive steps and returns what a loop over
    ``forward()`` would: outputs (L, B, num_outputs), values (L, B), and the states after each step (L, B, *state_shape).
    ``episode_end``, bool (L, B), says after which steps the state begins anew with zeros; the states that are returned are those
    before. ``obs`` has an axis L before its others.

    **Inputs of the critic.** If ``critic_sources`` of the network names some of ``sources``, the network has the methods
    ``actor(obs)`` and ``critic(obs, inputs)``, which are called in place of ``forward()``. ``inputs`` is float32 (B, C), the
    features of the sources side by side, of B worlds; ``obs`` has the a agents of each of these worlds as rows (B * a, ...), or
    as worlds with ``shared_parts``. A policy that normalises observations normalises them, too. A state comes after the inputs,
    also in ``sequence()``.
    """

    observation: Box
    """Observation of one agent, without the shared part; its features are flat if there is a shared part."""
    shared: Box | None
    """Shared part of the observation; None without one."""
    num_outputs: int
    """Number of outputs: a logit for each choice of each entry of an action, side by side, or a mean for each number of it. For
    policies of values (``QPolicy``) they are the values of the choices, and the network's own value is not read."""
    sources: Mapping[str, int] = field(default_factory=dict)
    """Sources that a critic may read, and their features a world: fields of the env's state; "observations", those of all agents
    of the policy side by side, zeros for agents out of the game, where a shared part comes once, before the others of its role;
    and "shared", the shared part alone, if observations have one."""
    agents: int = 1
    """Agents of the policy in a world; of its first role, if it acts for several."""
    config: NetworkConfig = NetworkConfig()  # noqa: RUF009  (it cannot be changed)
    """Options of the policy's network. The built-in network reads all of them, and a registered one what it likes."""

    @classmethod
    def of(
        cls, group: Group, world: WorldSpec = WorldSpec(), config: NetworkConfig = NetworkConfig()  # noqa: B008
    ) -> NetworkSpec:
        """Return what a network for a group of agents takes and returns."""
        num_outputs = group.num_entries if group.continuous else sum(group.choices)
        return cls(group.observation, group.shared, num_outputs, world.sources, world.policy_agents, config)

    @property
    def parts(self) -> tuple[int, ...]:
        """Features of the shared part, if there is one, and of the rest."""
        features = math.prod(self.observation.shape)
        return (features,) if self.shared is None else (math.prod(self.shared.shape), features)


def state_shape_of(network: nn.Module) -> tuple[int, ...] | None:
    """Return the shape of the state that a network declares; None without one.

    Raises:
        ConfigError: it is no tuple of positive integers.
    """
    shape = getattr(network, "state_shape", None)
    if shape is not None and not (isinstance(shape, tuple) and all(type(n) is int and n > 0 for n in shape)):
        raise ConfigError(f"state_shape of a network: expected a tuple of positive integers or None, got {shape!r}")
    return shape


def critic_sources_of(network: nn.Module, sources: Mapping[str, int]) -> tuple[str, ...]:
    """Return the sources that a network declares for its critic; empty without any.

    Raises:
        ConfigError: they are no tuple of different names out of ``sources``, or the network lacks a method.
    """
    names = getattr(network, "critic_sources", ())
    if not (isinstance(names, tuple) and all(name in sources for name in names) and len({*names}) == len(names)):
        raise ConfigError(f"critic_sources of a network: expected a tuple of fields out of {list(sources)}, got {names!r}")
    for method in ("actor", "critic") if names else ():
        if not has_method(network, method):
            raise ConfigError(f"critic_sources of a network: expected a method {method}() of its class, got none")
    return names


def has_method(network: nn.Module, name: str) -> bool:
    """True if the class of a network defines a method; a submodule may have the same name."""
    return callable(getattr(type(network), name, None))


def takes_parts(network: nn.Module) -> bool:
    """True if a network takes the shared part of observations by itself."""
    return bool(getattr(network, "shared_parts", False))


def network_input(network: nn.Module, obs: Observation) -> Observation:
    """Return observations in the form that a network takes; that is rows (B * a, ...) if it reads no shared part by itself."""
    if isinstance(obs, Tensor):
        return obs
    own_part = obs["own"]
    if "shared" not in obs:
        return own_part.flatten(0, 1)
    if takes_parts(network):
        return obs
    shared = obs["shared"].unsqueeze(-2).expand(*own_part.shape[:-1], -1)
    return torch.cat((shared, own_part), dim=-1).flatten(0, 1)


class SharedLinear(nn.Linear):
    """A linear layer for observations with a shared part.

    It equals a linear layer with the same weight and bias over the features ``(shared, own)`` of each agent:
    ``W [s, o] + b = (W_s s + b) + W_o o``. The first term is computed once a world.
    """

    def __init__(self, num_shared: int, num_own: int, size_out: int):
        """Make a layer with a weight (size_out, num_shared + num_own)."""
        super().__init__(num_shared + num_own, size_out)
        self.parts = [num_shared, num_own]

    def forward(self, obs: dict[str, Tensor]) -> Tensor:  # type: ignore[override]  # observations of worlds, not of rows
        """Return float32 (B, a, size_out) of ``{"shared": (B, S), "own": (B, a, P)}``."""
        shared_weight, own_weight = self.weight.split(self.parts, dim=1)
        by_world = nn.functional.linear(obs["shared"], shared_weight, self.bias)
        return by_world.unsqueeze(-2) + nn.functional.linear(obs["own"], own_weight)


def _layer(parts: tuple[int, ...], size_out: int, gain: float, generator: torch.Generator) -> nn.Linear:
    """Return a layer with orthogonal weights and zero biases. Two parts are the shared features and an agent's own."""
    layer = _blank(nn.Linear if len(parts) == 1 else SharedLinear, sum(parts), size_out)
    if isinstance(layer, SharedLinear):
        layer.parts = list(parts)
    for tensor in (layer.weight, layer.bias):
        nn.init.uniform_(tensor, generator=generator)  # nn.Linear() draws as many; so the weights of a seed have not changed
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def _blank(kind: type[nn.Linear], size_in: int, size_out: int) -> nn.Linear:
    """Return a linear layer on the CPU without first weights. ``nn.Linear()`` draws them from a generator that threads share."""
    layer = kind.__new__(kind)
    nn.Module.__init__(layer)
    layer.in_features, layer.out_features = size_in, size_out
    for name, shape in (("weight", (size_out, size_in)), ("bias", (size_out,))):
        setattr(layer, name, nn.Parameter(torch.empty(shape, dtype=torch.float32, device="cpu")))
    return layer


def _hidden(parts: tuple[int, ...], config: NetworkConfig, generator: torch.Generator) -> tuple[list[nn.Module], tuple[int, ...]]:
    """Return the hidden layers, and the number of features after them."""
    layers: list[nn.Module] = []
    for size in config.hidden_sizes:
        layers.append(_layer(parts, size, math.sqrt(2.0), generator))
        if config.layer_norm:
            layers.append(nn.LayerNorm(size, dtype=torch.float32, device="cpu"))
        layers.append(_ACTIVATIONS[config.activation]())
        parts = (size,)
    return layers, parts


class FeedForward(nn.Module):
    """The built-in network: an actor and a critic, with hidden layers of their own or in common."""

    shared_parts = True

    def __init__(self, spec: NetworkSpec, config: NetworkConfig, generator: torch.Generator):
        """Build the layers.

        Args:
            spec: inputs and outputs; observations of several axes are flattened.
            config: hidden layers.
            generator: source of the weights, a CPU generator, so that weights do not depend on the device.
        """
        super().__init__()
        parts = spec.parts
        trunk: list[nn.Module] = [nn.Flatten()] if len(parts) == 1 and len(spec.observation.shape) > 1 else []
        self.critic_sources, self.team_value = config.critic_sources, config.critic_value == "team"
        self.adds_shared = spec.shared is not None and not {OBSERVATIONS, SHARED} & {*self.critic_sources}
        actor: list[nn.Module] = []
        critic: list[nn.Module] = []
        if config.shared_trunk:
            hidden, last = _hidden(parts, config, generator)
            trunk += hidden
        else:
            actor, last = _hidden(parts, config, generator)
        # Small weights in the last layer make the first policy near-uniform for every observation.
        actor.append(_layer(last, spec.num_outputs, 0.01, generator))
        if self.critic_sources:
            parts = self._critic_parts(spec)
        if not config.shared_trunk:
            critic, last = _hidden(parts, config, generator)
        critic.append(_layer(last, 1, 1.0, generator))
        self.trunk, self.actor_layers, self.critic_layers = (nn.Sequential(*layers) for layers in (trunk, actor, critic))

    def forward(self, obs: Observation) -> tuple[Tensor, Tensor]:
        """Return outputs and value, see ``NetworkSpec``."""
        features = CALL_LAYERS(self.trunk, obs)
        return CALL_LAYERS(self.actor_layers, features), CALL_LAYERS(self.critic_layers, features).squeeze(-1)

    def actor(self, obs: Observation) -> Tensor:
        """Return the outputs alone."""
        return CALL_LAYERS(self.actor_layers, CALL_LAYERS(self.trunk, obs))

    def critic(self, obs: Observation, inputs: Tensor | None = None) -> Tensor:
        """Return the value alone."""
        features = CALL_LAYERS(self.trunk, obs)
        if inputs is not None:
            return self._central(features, inputs)
        return CALL_LAYERS(self.critic_layers, features).squeeze(-1)

    def _critic_parts(self, spec: NetworkSpec) -> tuple[int, ...]:
        """Return the features that a critic with inputs reads once a world, and those that it reads once an agent."""
        inputs = sum(spec.sources[name] for name in self.critic_sources)
        if self.team_value:
            return (inputs,)
        return (inputs + sum(spec.parts[:-1]) * self.adds_shared, spec.parts[-1])

    def _central(self, features: Observation, inputs: Tensor) -> Tensor:
        """Return values with inputs of the critic, float32 (B * a,) or (B, a) as the rows of ``features``; also of sequences.

        The first layer multiplies the inputs once a world, see ``SharedLinear``. A value of a team is computed once a world.
        """
        own_part = features if isinstance(features, Tensor) else features["own"]
        rows, by_world = own_part.shape[:-1], own_part.reshape(*inputs.shape[:-1], -1, own_part.shape[-1])
        if self.team_value:
            return CALL_LAYERS(self.critic_layers, inputs).expand(by_world.shape[:-1]).reshape(rows)
        if self.adds_shared and not isinstance(features, Tensor):
            inputs = torch.cat((inputs, features["shared"]), dim=-1)
        return CALL_LAYERS(self.critic_layers, {"shared": inputs, "own": by_world}).reshape(rows)


def uniform_layers(spec: NetworkSpec, num_outputs: int, config: NetworkConfig, generator: torch.Generator) -> nn.Sequential:
    """Return hidden layers and a last one, as actors of off-policy algorithms have them.

    Weights and biases are uniform within ``1 / sqrt(inputs of the layer)``, as in Lillicrap et al. 2016, arXiv 1509.02971,
    section 7, and in the code of Fujimoto et al. 2018 and of Haarnoja et al. 2018, whose last layers are no exception.

    Args:
        spec: inputs, as those of ``FeedForward``.
        num_outputs: outputs of the last layer.
        config: hidden layers.
        generator: source of the weights, a CPU generator.
    """
    parts = spec.parts
    layers: list[nn.Module] = [nn.Flatten()] if len(parts) == 1 and len(spec.observation.shape) > 1 else []
    for size in (*config.hidden_sizes, num_outputs):
        layer = _blank(nn.Linear if len(parts) == 1 else SharedLinear, sum(parts), size)
        if isinstance(layer, SharedLinear):
            layer.parts = list(parts)
        bound = 1 / math.sqrt(sum(parts))
        for tensor in (layer.weight, layer.bias):
            nn.init.uniform_(tensor, -bound, bound, generator=generator)
        norm = [nn.LayerNorm(size, dtype=torch.float32, device="cpu")] if config.layer_norm else []
        layers += [layer, *norm, _ACTIVATIONS[config.activation]()]
        parts = (size,)
    return nn.Sequential(*layers[: -2 if config.layer_norm else -1])


class QNetwork(nn.Module):
    """The built-in network of policies of values: the value of each choice of each entry of an action."""

    shared_parts = True

    def __init__(self, spec: NetworkSpec, config: NetworkConfig, generator: torch.Generator):
        """Build the layers; see ``FeedForward``.

        Raises:
            ConfigError: an option has no effect on this network.
        """
        super().__init__()
        for name, value in vars(config).items():
            if name not in Q_FIELDS and value != getattr(NetworkConfig(), name):
                raise ConfigError(f"network.{name}: expected none, as a network of values has no such part, got {value!r}")
        flatten = [nn.Flatten()] if len(spec.parts) == 1 and len(spec.observation.shape) > 1 else []
        hidden, last = _hidden(spec.parts, config, generator)
        # Small weights in the last layer: sums over agents and entries begin near 0, too.
        self.layers = nn.Sequential(*flatten, *hidden, _layer(last, spec.num_outputs, 0.01, generator))

    def forward(self, obs: Observation) -> tuple[Tensor, Tensor]:
        """Return the values of the choices, and the largest of them."""
        values = self.actor(obs)
        return values, values.amax(-1)

    def actor(self, obs: Observation) -> Tensor:
        """Return the values of the choices alone."""
        return CALL_LAYERS(self.layers, obs)


Q_FIELDS = ("hidden_sizes", "activation", "agent_ids", "layer_norm")
"""Fields of ``NetworkConfig`` that shape a network of values."""
