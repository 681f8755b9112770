"""Algorithms by name."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gpu_vecenv.train.algorithms.contract import Algorithm
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Policy

Builder = Callable[[Policy, PPOConfig, tuple[int, ...], int, torch.device], Algorithm]
"""Makes the algorithm of a policy from the arguments of ``PPO``."""

_BUILDERS: dict[str, Builder] = {"ppo": PPO}


def register_algorithm(name: str, builder: Builder) -> None:
    """Make an algorithm available as ``PolicyConfig.algorithm``. A checkpoint stores the name alone.

    Raises:
        ConfigError: the name is taken by another builder.
    """
    if _BUILDERS.setdefault(name, builder) is not builder:
        raise ConfigError(f"register_algorithm: expected a new name, got {name!r}, which is registered")


def algorithm_builder(name: str) -> Builder:
    """Return the builder of an algorithm.

    Raises:
        ConfigError: no algorithm has this name.
    """
    if name not in _BUILDERS:
        raise ConfigError(
            f"algorithm: expected one of {', '.join(_BUILDERS)}, got {name!r}; import the module that registers it first"
        )
    return _BUILDERS[name]
