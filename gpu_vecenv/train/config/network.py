"""Shape of the networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_vecenv.train.config.checks import FLAG, NUMBER, Check, check_fields, integer, one_of, require

MAX_WIDTH = 65_536
_WIDTH = integer(1, MAX_WIDTH)


@dataclass(frozen=True)
class NetworkConfig:
    """Shape of a feed-forward actor-critic."""

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
    layer_norm: bool = False
    """Layer normalisation (Ba et al. 2016, arXiv 1607.06450) of each hidden layer of the built-in network, before its
    nonlinearity."""

    def __post_init__(self) -> None:
        """Check ranges."""
        check_fields(self, NETWORK_CHECKS)
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))
        require(not self.layer_norm or self.hidden_sizes != (), "layer_norm", "False without hidden layers", self.layer_norm)


NETWORK_CHECKS: Mapping[str, Check] = {
    "hidden_sizes": Check(
        lambda sizes: isinstance(sizes, tuple | list) and all(_WIDTH.test(size) for size in sizes),
        f"a tuple of integers from 1 to {MAX_WIDTH}, such as (64, 64)",
    ),
    "activation": one_of("tanh", "relu", "elu"),
    "shared_trunk": FLAG,
    "log_std": NUMBER,
    "agent_ids": FLAG,
    "layer_norm": FLAG,
}
"""Valid values of each field."""
