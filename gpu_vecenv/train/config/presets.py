"""Presets: options that work for the bundled envs. They replace the options of a run that are None."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from gpu_vecenv.train.config.options import NetworkConfig, PPOConfig, ResolvedConfig, TrainConfig


@dataclass(frozen=True)
class Preset:
    """Values of the ``TrainConfig`` fields that a run leaves None."""

    num_envs: int = 64
    """Number of worlds."""
    total_steps: int = 500_000
    """Steps of the run, summed over worlds."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """Hyperparameters of the update."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Shape of the networks."""


_TAG_PPO = PPOConfig(
    num_steps=50,
    num_epochs=2,
    num_minibatches=8,
    learning_rate=5e-3,  # tags are rare and few transitions informative, so steps and minibatches are large
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
"""Presets by env id (without namespace); other envs have ``Preset()``."""

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
"""A small game of Tag that both roles learn within minutes on a CPU. ``dataclasses.replace`` changes an option.

A tagger tags within a radius of 0.3 and moves at most 0.5 in a step, so the discs of consecutive steps overlap. A straight course
leaves no gaps and searches a larger area than a random walk. An action entry has three choices, which keeps learning fast.
"""


def resolve(config: TrainConfig) -> ResolvedConfig:
    """Return ``config`` with every None field of the preset filled from it."""
    preset = PRESETS.get(config.env_id.split("/")[-1].split(":")[-1], Preset())
    names = [f.name for f in dataclasses.fields(Preset)]
    filled = {n: getattr(preset, n) for n in names if getattr(config, n) is None}
    return ResolvedConfig(**{**vars(config), **filled})
