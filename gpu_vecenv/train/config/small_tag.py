"""Small games of Tag, for examples and tests of learning."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpu_vecenv.train.config.network import NetworkConfig
from gpu_vecenv.train.config.pqn import PQNConfig
from gpu_vecenv.train.config.presets import TAG_PPO
from gpu_vecenv.train.config.run import TrainConfig
from gpu_vecenv.train.config.sac import SACConfig
from gpu_vecenv.train.config.td3 import DDPGConfig

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
        "num_other_agents_observed": 5,
        "extended_observation": True,
    },
    ppo=dataclasses.replace(TAG_PPO, num_epochs=4, entropy_coef=0.003),
)
"""A small game of Tag that both roles learn within minutes on a CPU. ``dataclasses.replace`` changes an option.

A tagger tags within a radius of 0.3 and moves at most 0.5 in a step, so the discs of consecutive steps overlap. A straight course
leaves no gaps and searches a larger area than a random walk. An action entry has three choices, which keeps learning fast.
"""

_TAG_OPTIONS: dict[str, Any] = {
    "num_steps": 2, "replay_size": 1_000_000, "learning_starts": 50_000, "batch_size": 1024, "gradient_steps": 8, "gamma": 0.97,
    "n_steps": 3, "actor_learning_rate": 3e-4, "critic_learning_rate": 1e-3,
}  # fmt: skip

SMALL_CONTINUOUS_TAG = TrainConfig(
    "WarpTag-v0",
    num_envs=64,
    total_steps=200_000,
    env_kwargs={**SMALL_TAG.env_kwargs, "continuous_actions": True},
    network=NetworkConfig((128, 128), "relu"),
    algorithm="sac",
    algorithms={"sac": SACConfig(**_TAG_OPTIONS, temperature=0.1)},
)
"""``SMALL_TAG`` with continuous actions, which both roles learn by SAC, each with a replay buffer of its own."""

SMALL_CONTINUOUS_TAG_DDPG = dataclasses.replace(
    SMALL_CONTINUOUS_TAG, algorithm="ddpg", algorithms={"ddpg": DDPGConfig(**_TAG_OPTIONS, tau=0.005)}
)
"""The same game with DDPG, by which runners learn less."""

SMALL_TAG_PQN = dataclasses.replace(
    SMALL_TAG,
    num_envs=32,
    total_steps=60_000,
    ppo=None,
    algorithm="pqn",
    algorithms={"pqn": PQNConfig(num_steps=25, num_minibatches=8, learning_rate=1e-3, gamma=0.97, mixing="vdn")},
)
"""``SMALL_TAG`` with teams, which both roles learn by PQN-VDN within a minute on a CPU."""

SMALL_GRID_TAG = TrainConfig(
    "WarpGridTag-v0",
    num_envs=256,
    total_steps=2_000_000,
    env_kwargs={"grid_length": 16, "num_taggers": 1, "use_full_observation": True},
    ppo=dataclasses.replace(TAG_PPO, num_epochs=4, learning_rate=3e-3, entropy_coef=0.005),
)
"""A small game of Tag on a grid that both roles learn within minutes on a CPU.

On the full board players seldom meet by chance, and more taggers leave the runner no way to escape.
"""
