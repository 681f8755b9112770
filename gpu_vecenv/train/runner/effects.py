"""Options that have no effect beside others of the same run; a new run refuses them by name."""

from __future__ import annotations

import dataclasses

from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.storage.policy_map import is_random

NEEDS = {"evaluation_episodes": "evaluation_interval", "checkpoint_interval": "out", "keep_checkpoints": "out"}
"""Options that have an effect only if another one is given."""


def require_effects(config: TrainConfig) -> None:
    """Check the options of a new run. Those of a checkpoint are not checked, because a run that has begun may go on.

    Raises:
        ConfigError: an option that differs from its default has no effect.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for name, needed in NEEDS.items():
        if getattr(config, name) != defaults[name] and getattr(config, needed) is None:
            raise ConfigError(f"{name}: expected {needed} with it, because it has no effect alone, got {getattr(config, name)}")
    for option in ("policies", "load_policies"):
        for name in getattr(config, option):
            if is_random(name):
                raise ConfigError(f"{option}: expected policies with a network, got {name!r}, which acts at random")
    for name in config.frozen:
        own = config.policies.get(name)
        if own is None:
            continue
        learning = [field for field in own.ppo if field != "normalize_observations"]  # it is a part of the network
        learning = [f"ppo.{field}" for field in learning] + ["algorithm"] * (own.algorithm != "ppo")
        if learning:
            raise ConfigError(f"policies: expected no settings of learning for {name!r}, which is frozen, got {learning[0]}")
