"""Shape of the networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_vecenv.train.config.checks import FLAG, NUMBER, Check, check_fields, integer, one_of
from gpu_vecenv.train.errors import ConfigError

MAX_WIDTH = 65_536
_WIDTH = integer(1, MAX_WIDTH)
DEFAULT_MEMORY_SIZE = 64


@dataclass(frozen=True)
class NetworkConfig:
    """Shape of the built-in actor-critic, feed-forward or with a memory."""

    hidden_sizes: tuple[int, ...] = (64, 64)
    """Width of each hidden layer."""
    activation: Literal["tanh", "relu", "elu"] = "tanh"
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

    def __post_init__(self) -> None:
        """Check ranges."""
        check_fields(self, NETWORK_CHECKS)
        if self.memory is None and self.memory_size != DEFAULT_MEMORY_SIZE:
            raise ConfigError(f"memory_size: expected a memory with it, 'gru' or 'lstm', got {self.memory_size} without one")
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))


NETWORK_CHECKS: Mapping[str, Check] = {
    "hidden_sizes": Check(
        lambda sizes: isinstance(sizes, tuple | list) and all(_WIDTH.test(size) for size in sizes),
        f"a tuple of integers from 1 to {MAX_WIDTH}, such as (64, 64)",
    ),
    "activation": one_of("tanh", "relu", "elu"),
    "shared_trunk": FLAG,
    "log_std": NUMBER,
    "agent_ids": FLAG,
    "memory": one_of("gru", "lstm").or_none(),
    "memory_size": _WIDTH,
}
"""Valid values of each field."""
