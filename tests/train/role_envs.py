"""Registers envs of the trainer's tests.

Town, Pairs and Arena are by role: Town with unlike spaces, Pairs with equal ones, Arena with agents that are absent or leave.
Masked has roles alike.
"""

from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

import tests.roles  # noqa: F401  # registers Town
from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Param, Role
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


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



def arena_role(name, features, shared=None):
    return Role(
        name,
        f"num_{name}",
        observation=lambda params: Box(-np.inf, np.inf, (features,), np.float32),
        action=lambda params: MultiDiscrete([3, 4]),
        masked=lambda params: (0, 1) if params["shut"] else (1,),
        shared=shared,
        leaving="by chance",
    )


ARENA = EnvSpec(
    name="Arena-v0",
    kernel=Path(__file__).with_name("arena.cu"),
    roles=(arena_role("red", 3), arena_role("blue", 2, lambda params: Box(-np.inf, np.inf, (1,), np.float32))),
    params=(
        Param("num_red", 3, "int32", "red agents", low=1, high=100),
        Param("num_blue", 2, "int32", "blue agents", low=1, high=100),
        Param("absent", 0.3, "float32", "probability that an agent is absent from an episode", low=0, high=1),
        Param("leaves", 0.1, "float32", "probability that an agent leaves in a step", low=0, high=1),
        Param("ends", 0.05, "float32", "probability that the episode ends in a step", low=0, high=1),
        Param("shut", 0, "int32", "1 to leave no choice in most steps", low=0, high=1),
        Param("ghost", 1000.0, "float32", "reward of agents that are not in the game"),
        TIME_LIMIT,
    ),
    state=(
        Field("place", "float32", ("num_agents",), "where an agent is"),
        Field("present", "uint8", ("num_agents",), "1 for an agent in the game", low=0, high=1),
    ),
    sizes=("num_red", "num_blue"),
    alive="present",
    rewards={"place": "more near 0"},
)

gymnasium.register("Arena-v0", vector_entry_point=partial(GpuVectorEnv, ARENA))
gymnasium.register("Pairs-v0", vector_entry_point=partial(GpuVectorEnv, PAIRS))
gymnasium.register("Masked-v0", vector_entry_point=partial(GpuVectorEnv, MASKED))
