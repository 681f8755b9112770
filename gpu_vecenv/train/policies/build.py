"""Makes a policy from options, with weights that its name and the run's seed determine."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

import torch
from torch import nn

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.config import AlgorithmConfig, NetworkConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.actor_critic import ActorCritic, require_actions
from gpu_vecenv.train.policies.agent_ids import with_id_features
from gpu_vecenv.train.policies.check import check_network
from gpu_vecenv.train.policies.memory import Recurrent
from gpu_vecenv.train.policies.networks import FeedForward, NetworkSpec, QNetwork, WorldSpec
from gpu_vecenv.train.policies.q_policy import QPolicy
from gpu_vecenv.train.policies.registry import network_builder


def make_policy(
    name: str,
    group: Group,
    seed: int,
    network: NetworkConfig,
    normalize_observations: bool = True,
    module: nn.Module | str | None = None,
    learns: bool = False,
    world: WorldSpec = WorldSpec(),  # noqa: B008  (it cannot be changed)
) -> ActorCritic:
    """Build a new policy on the CPU, or on the device of ``module``.

    Args:
        name: name of the policy.
        group: spaces of its agents; ``count`` is their number in a world.
        seed: seed of the run.
        network: shape of the built-in network, which a registered one may read, and the first deviation of Box actions.
        normalize_observations: see ``ActorCritic``.
        module: the user's network, or the name under which it is registered. None builds the built-in one.
        learns: the policy learns by gradients, which some weights of its network must have.
        world: what networks may know of a world.

    Raises:
        ConfigError: the action space is not supported, the name is not registered, or the network does not fit the spaces. A
            network of the user with ``agent_ids`` or ``critic``, or inputs of the critic that the env does not have.
    """
    built_in = FeedForward if network.memory is None else Recurrent
    module, num_ids = build_network(name, group, seed, network, module, learns, world, built_in)
    return ActorCritic(module, group, normalize_observations, network.log_std, name, num_ids, world)


def make_q_policy(
    name: str,
    group: Group,
    seed: int,
    network: NetworkConfig,
    options: AlgorithmConfig,
    module: nn.Module | str | None = None,
    learns: bool = False,
    world: WorldSpec = WorldSpec(),  # noqa: B008
) -> QPolicy:
    """Build a policy of values, by the options of its algorithm; see ``make_policy()``, also for errors."""
    module, num_ids = build_network(name, group, seed, network, module, learns, world, QNetwork)
    return QPolicy(module, group, options.normalize_observations, name=name, num_ids=num_ids, world=world)


def build_network(
    name: str,
    group: Group,
    seed: int,
    network: NetworkConfig,
    module: nn.Module | str | None,
    learns: bool,
    world: WorldSpec,
    built_in: Callable[[NetworkSpec, NetworkConfig, torch.Generator], nn.Module] = FeedForward,
) -> tuple[nn.Module, int]:
    """Return a checked network, and the number of agents in a world if it reads which one a row is, else 0.

    ``built_in`` builds the network if ``module`` is None. For the other arguments see ``make_policy()``, also for errors.
    """
    require_actions(group.action)
    first = weight_seed(seed, name)
    num_ids = world.num_agents if network.agent_ids else 0
    if module is None:
        read = with_id_features(group, num_ids)
        _require_sources(network, world, name)
        module = built_in(NetworkSpec.of(read, world), network, torch.Generator("cpu").manual_seed(first))
        check_network(module, read, name, learns, world)
    elif network.agent_ids:
        raise ConfigError(f"policy {name!r}: agent_ids is for the built-in network; expected agent_ids=False with another one")
    elif network.critic_sources:
        expected = "expected critic='own' with another one, which declares critic_sources"
        raise ConfigError(f"policy {name!r}: critic is for the built-in network; {expected}, got {network.critic!r}")
    else:
        # A builder, and the check's call, may draw from torch's own generator of the CPU, whose state is restored afterwards. No
        # other policy changes the weights, also not one that another thread builds.
        with _TORCHS_GENERATOR, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(first)
            if isinstance(module, str):
                module = network_builder(module)(NetworkSpec.of(group, world, network))
            check_network(module, group, name, learns, world)
    return module, num_ids


def _require_sources(network: NetworkConfig, world: WorldSpec, name: str) -> None:
    """Raise ConfigError unless the policy's worlds have the inputs of its critic."""
    for source in network.critic_sources:
        if source not in world.sources:
            raise ConfigError(f"policy {name!r}: critic: expected inputs out of {list(world.sources)}, got {source!r}")


_TORCHS_GENERATOR = threading.RLock()
"""Held while torch's own generator of the CPU has another state; a builder may build further policies."""


def weight_seed(seed: int, name: str) -> int:
    """Return the seed of a policy's initial weights, a hash of 64 bits of the run's seed and the policy's name."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "little")
