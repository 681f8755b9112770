"""Settings known to work for the shipped envs, used for every option a run leaves open."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from gpu_vecenv.train.config import NetworkConfig, PPOConfig, ResolvedConfig, TrainConfig


@dataclass(frozen=True)
class Preset:
    """What a run takes where its ``TrainConfig`` says None."""

    num_envs: int = 64
    """Number of worlds."""
    total_steps: int = 500_000
    """World steps in all."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """Hyperparameters of the update."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Shape of the networks."""


_TAG_PPO = PPOConfig(
    num_steps=50,
    num_epochs=2,
    num_minibatches=8,
    learning_rate=5e-3,  # each row says little: a tag is rare, so steps must be large and batches wide
    gamma=0.97,
    entropy_coef=0.0,
)

PRESETS: dict[str, Preset] = {
    "WarpCartPole-v1": Preset(
        num_envs=64,
        total_steps=400_000,
        ppo=PPOConfig(num_steps=32, num_minibatches=4, learning_rate=1e-3, entropy_coef=0.0),
    ),
    "WarpTag-v0": Preset(num_envs=8, total_steps=50_000, ppo=_TAG_PPO),
}
"""Presets by env id (without namespace); every other env gets ``Preset()``."""

SMALL_TAG = TrainConfig(
    "WarpTag-v0",
    num_envs=64,
    total_steps=400_000,
    env_kwargs={
        "num_taggers": 3,
        "num_runners": 10,
        "grid_length": 10.0,
        "episode_length": 100,
        "max_speed": 0.5,
        "tagging_distance": 0.03,
        "num_acceleration_levels": 2,
        "num_turn_levels": 2,
        "num_other_agents_observed": 12,
    },
    ppo=dataclasses.replace(_TAG_PPO, num_epochs=4),
)
"""A small Tag game that each side learns within minutes on a CPU; change it with ``dataclasses.replace``.

A step is shorter than the reach of a tagger is wide, so keeping a course sweeps ground that a random walk does
not, and three choices a head are soon told apart.
"""


def resolve(config: TrainConfig) -> ResolvedConfig:
    """Return ``config`` with every open field filled from the env's preset."""
    preset = PRESETS.get(config.env_id.split("/")[-1].split(":")[-1], Preset())
    names = [f.name for f in dataclasses.fields(Preset)]
    filled = {n: getattr(preset, n) for n in names if getattr(config, n) is None}
    return ResolvedConfig(**{**vars(config), **filled})
