"""A test env with agents that are absent or leave, rewards that must not count, and masks that may forbid every choice."""

from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, GpuVectorEnv, Param, Role

SPEC = EnvSpec(
    name="Ghost-v0",
    kernel=Path(__file__).with_name("ghosts.cu"),
    roles=(Role("red", "num_red", masked=(1,)), Role("blue", "num_blue", masked=(1,))),
    params=(
        Param("num_red", 3, "int32", "red agents", low=1, high=100),
        Param("num_blue", 2, "int32", "blue agents", low=1, high=100),
        Param("absent", 0.3, "float32", "share of agents that are absent from an episode", low=0, high=1),
        Param("leave", 0.1, "float32", "share of agents that leave in a step", low=0, high=1),
        Param("end", 0.04, "float32", "share of worlds that end in a step", low=0, high=1),
        Param("ghost", 1000.0, "float32", "reward of agents that are out"),
        TIME_LIMIT,
    ),
    state=(
        Field("pos", "float32", ("num_agents",), "position"),
        Field("present", "uint8", ("num_agents",), "in the game", low=0, high=1),
    ),
    observation=lambda params: Box(-np.inf, np.inf, (3,), np.float32),
    action=lambda params: MultiDiscrete([3, 4]),
    sizes=("num_red", "num_blue"),
    alive="present",
    rewards={"middle": "half minus the distance from 0, and a tenth for the third choice"},
)

make_vec = partial(GpuVectorEnv, SPEC)
gymnasium.register("Ghost-v0", vector_entry_point="ghosts:make_vec")
