"""Makes the env and the policies that a config describes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import gymnasium
import torch

import gpu_vecenv  # noqa: F401  (registers the env ids)
from gpu_vecenv.train.checkpoint import load_checkpoint
from gpu_vecenv.train.config import ResolvedConfig, TrainConfig
from gpu_vecenv.train.errors import CheckpointError, ConfigError
from gpu_vecenv.train.policy import ActorCritic, Policy, RandomPolicy
from gpu_vecenv.train.policy_map import RANDOM

if TYPE_CHECKING:
    from gpu_vecenv.vector_env import GpuVectorEnv


def make_env(
    config: TrainConfig,
    num_worlds: int | None = None,
    autoreset_mode: str = "same_step",
) -> GpuVectorEnv:
    """Make the env of a run in the agents view.

    Args:
        config: a resolved config.
        num_worlds: worlds; None takes the config's.
        autoreset_mode: what a world does when it ends.

    Returns:
        The unwrapped env.
    """
    env = gymnasium.make_vec(
        config.env_id,
        num_worlds=config.num_envs if num_worlds is None else num_worlds,
        view="agents",
        device=config.device,
        array="torch",
        autoreset_mode=autoreset_mode,
        **config.env_kwargs,
    )
    return cast("GpuVectorEnv", env.unwrapped)


def make_policies(env: GpuVectorEnv, config: ResolvedConfig, names: Iterable[str]) -> dict[str, Policy]:
    """Build a fresh policy for every name, on the env's device; ``random`` is the random one."""
    generator = torch.Generator().manual_seed(config.seed)
    (features,) = env.single_observation_space.shape or ()
    space = env.single_action_space
    policies: dict[str, Policy] = {}
    for name in names:
        if name == RANDOM:
            policies[name] = RandomPolicy(space)
        else:
            norm = config.ppo.normalize_observations
            policies[name] = ActorCritic(features, space, config.network, generator, norm)
    return {name: policy.to(env.device) for name, policy in policies.items()}


def load_policy(policies: dict[str, Policy], name: str, path: str | Path) -> None:
    """Give the policy ``name`` the weights it has in a checkpoint.

    Raises:
        ConfigError: no such policy here.
        CheckpointError: no such policy there, or one of another shape.
    """
    if name not in policies:
        raise ConfigError(f"load_policies: expected policies out of {list(policies)}, got {name!r}")
    saved = load_checkpoint(path)["policies"]
    if name not in saved:
        raise CheckpointError(f"{path}: expected a policy named {name!r}, got policies {list(saved)}")
    try:
        policies[name].load_state_dict(saved[name])
    except RuntimeError as error:
        raise CheckpointError(f"{path}: policy {name!r} has another shape than expected: {error}") from error
