"""Spread: a test env with the same hooks in C++ and in Python."""

from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Param, Role
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

SPEC = EnvSpec(
    name="Spread-v0",
    kernel=Path(__file__).with_name("spread.cu"),
    roles=(Role("walker", "num_walkers"),),
    params=(Param("num_walkers", 3, "int32", "agents and landmarks", low=1, high=64), TIME_LIMIT),
    state=(
        Field("x", "float32", ("num_agents",), "place"),
        Field("y", "float32", ("num_agents",), "place"),
        Field("vx", "float32", ("num_agents",), "speed"),
        Field("vy", "float32", ("num_agents",), "speed"),
        Field("goal_x", "float32", ("num_agents",), "place of a landmark"),
        Field("goal_y", "float32", ("num_agents",), "place of a landmark"),
        Field("near_by", "float32", ("num_agents",), "distance from a landmark to the nearest agent"),
    ),
    sizes=("num_walkers",),
    observation=lambda p: Box(-np.inf, np.inf, (2 + 4 * p["num_walkers"],), np.float32),
    action=lambda p: Discrete(5),
)

make_vec = partial(GpuVectorEnv, SPEC)

if "Spread-v0" not in gymnasium.registry:
    gymnasium.register("Spread-v0", vector_entry_point="tests.pyhooks.spread:make_vec")
