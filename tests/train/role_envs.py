"""Registers envs of the trainer's tests: Town and Pairs by role, with unlike and equal spaces; Masked with roles alike."""

from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

import tests.roles  # noqa: F401  # registers Town
from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Param, Role
from gpu_vecenv.vector.vector_env import GpuVectorEnv


def pairs_role(name, count):
    return Role(
        name,
        count,
        observation=lambda params: Box(-np.inf, np.inf, (2,), np.float32),
        action=lambda params: MultiDiscrete([2, 3]),
        masked=(1,),
        shared=lambda params: Box(0, 1, (3,), np.float32),
    )


PAIRS = EnvSpec(
    name="Pairs-v0",
    kernel=Path(__file__).with_name("pairs.cu"),
    roles=(pairs_role("left", "num_left"), pairs_role("right", 2)),
    params=(Param("num_left", 3, "int32", "agents on the left", low=1, high=100), TIME_LIMIT),
    state=(Field("number", "int32", (), "decides the right choice"),),
    rewards={"right": "1 for the right choice"},
)

MASKED = EnvSpec(
    name="Masked-v0",
    kernel=Path(__file__).with_name("masked.cu"),
    roles=(Role("left", 2, masked=(0,)), Role("right", 1, masked=(0,))),
    params=(TIME_LIMIT,),
    state=(Field("shift", "int32", (), "decides the right choices"),),
    observation=lambda params: Box(0, 1, (3,), np.float32),
    action=lambda params: Discrete(3),
    rewards={"right": "1 for the right choice"},
)

gymnasium.register("Pairs-v0", vector_entry_point=partial(GpuVectorEnv, PAIRS))
gymnasium.register("Masked-v0", vector_entry_point=partial(GpuVectorEnv, MASKED))
