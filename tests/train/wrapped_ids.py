"""Registers envs in wrappers, for tests of the trainer."""

import gymnasium
import role_envs  # noqa: F401  # registers Masked
import torch
from gymnasium.spaces import Box

from gpu_vecenv import (
    ClipAction,
    ClipReward,
    EpisodeStatistics,
    NormalizeObservation,
    NormalizeReward,
    TransformObservation,
    TransformReward,
)


def sum_first(obs):
    """The sum of the first two numbers, and the third: two numbers in place of three or more."""
    return torch.stack((obs[:, 0] + obs[:, 1], obs[:, 2]), 1)


WRAPS = {
    "Transformed": lambda env: TransformObservation(env, sum_first, Box(-100, 100, (2,))),
    "Clipped": lambda env: ClipReward(env, -0.5, 0.25),
    "InPlace": lambda env: TransformReward(env, lambda reward: reward.mul_(-3)),
    "Normal": NormalizeObservation,
    "Nested": lambda env: ClipReward(
        NormalizeReward(NormalizeObservation(TransformObservation(EpisodeStatistics(env), lambda obs: 2 * obs))), -2, 2
    ),
    "Actions": ClipAction,
}
"""Wrappers by the first part of an id."""

BASES = {"Pendulum": "WarpPendulum-v1", "Tag": "WarpTag-v0", "CartPole": "WarpCartPole-v1", "Masked": "Masked-v0"}
"""Ids by the second part of an id."""


def entry(wrap, base):
    return lambda **options: WRAPS[wrap](gymnasium.make_vec(BASES[base], **options))


for _wrap in WRAPS:
    for _base in BASES:
        gymnasium.register(f"{_wrap}{_base}-v0", vector_entry_point=entry(_wrap, _base))
