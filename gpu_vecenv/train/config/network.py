"""Shape of the networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_vecenv.train.config.checks import FLAG, NUMBER, Check, check_fields, count, is_name, one_of, require, suggests_names
from gpu_vecenv.train.errors import ConfigError

MAX_WIDTH = 65_536
_WIDTH = count(MAX_WIDTH)
DEFAULT_MEMORY_SIZE = 64
WORDS = ("own", "observations", "shared")
"""Inputs of the critic that are no fields of the env's state."""


@suggests_names
@dataclass(frozen=True)
class NetworkConfig:
    """Shape of the built-in actor-critic, feed-forward or with a memory."""

    hidden_sizes: tuple[int, ...] = (64, 64)
    """Width of each hidden layer."""
    activation: Literal["tanh", "relu", "elu", "silu"] = "tanh"
    """Nonlinearity between layers."""
    shared_trunk: bool = False
    """Actor and critic share the hidden layers; otherwise each has its own."""
    log_std: float = 0.0
    """Logarithm of the standard deviation of continuous actions at the start."""
    agent_ids: bool = False
    """The built-in network also reads which agent of its world a row is: one input for each agent, 1 for the row's own."""
    memory: Literal["gru", "lstm"] | None = None
    """A recurrent layer reads the observation, and its units feed the hidden layers of actor and critic; None: feed-forward."""
    memory_size: int = DEFAULT_MEMORY_SIZE
    """Units of the memory."""
    critic: str | tuple[str, ...] = "own"
    """Inputs of the built-in critic: "own" reads what an agent observes; "observations" those of all agents of the policy,
    "shared" the shared part of observations, and a tuple of names fields of the env's state, each once a world."""
    critic_value: Literal["agent", "team"] = "agent"
    """A critic with inputs once a world also reads each agent's own observation, "agent"; or it reads them alone and has one
    value for all agents of the policy in a world, "team"."""
    layer_norm: bool = False
    """Layer normalisation (Ba et al. 2016, arXiv 1607.06450) of each hidden layer of the built-in network, before its
    nonlinearity."""

    def __post_init__(self) -> None:
        """Check ranges, and that options fit each other."""
        check_fields(self, NETWORK_CHECKS)
        for name in ("hidden_sizes", "critic"):
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        require(not self.layer_norm or self.hidden_sizes != (), "layer_norm", "False without hidden layers", self.layer_norm)
        if self.memory is None and self.memory_size != DEFAULT_MEMORY_SIZE:
            raise ConfigError(f"memory_size: expected a memory with it, 'gru' or 'lstm', got {self.memory_size} without one")
        per_agent, team = self.critic == "own", self.critic_value == "team"
        require(not per_agent or not team, "critic_value", "'agent' with critic='own', which has a value for each agent", "team")
        alone = "False with a critic that has inputs of its own"
        require(per_agent or not self.shared_trunk, "shared_trunk", alone, self.shared_trunk)
        reads_shared = "'team' with critic='shared', as critic='own' reads the shared part beside the rest"
        require(self.critic != "shared" or team, "critic_value", reads_shared, self.critic_value)

    @property
    def critic_sources(self) -> tuple[str, ...]:
        """Names of the critic's inputs once a world; empty without any. See ``NetworkSpec.sources``."""
        if isinstance(self.critic, tuple):
            return self.critic
        return () if self.critic == "own" else (self.critic,)


NETWORK_CHECKS: Mapping[str, Check] = {
    "hidden_sizes": Check(
        lambda sizes: isinstance(sizes, tuple | list) and all(_WIDTH.test(size) for size in sizes),
        f"a tuple of integers from 1 to {MAX_WIDTH}, such as (64, 64)",
        is_count=True,
    ),
    "activation": one_of("tanh", "relu", "elu", "silu"),
    "shared_trunk": FLAG,
    "log_std": NUMBER,
    "agent_ids": FLAG,
    "memory": one_of("gru", "lstm").or_none(),
    "memory_size": _WIDTH,
    "critic": Check(
        lambda value: value in WORDS
        if isinstance(value, str)
        else isinstance(value, tuple | list) and all(map(is_name, value)) and 0 < len(value) == len({*value}),
        f"{', '.join(map(repr, WORDS))} or a tuple of different fields of the env's state, such as ('place', 'speed')",
    ),
    "critic_value": one_of("agent", "team"),
    "layer_norm": FLAG,
}
"""Valid values of each field."""
