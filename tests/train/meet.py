"""A cooperative test env: agents of a team are paid together for being in one place, which none of them sees alone."""

from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, GpuVectorEnv, Param, Role

SPEC = EnvSpec(
    name="Meet-v0",
    kernel=Path(__file__).with_name("meet.cu"),
    roles=(Role("walker", "num_walkers"),),
    params=(
        Param("num_walkers", 3, "int32", "agents of the team", low=1, high=100),
        Param("num_cells", 5, "int32", "cells of the ring", low=2, high=100),
        TIME_LIMIT,
    ),
    state=(Field("cell", "int32", ("num_walkers",), "cell of each agent", low=0, high=99),),
    observation=lambda params: Box(0, 1, (params["num_cells"],), np.float32),
    action=lambda params: Discrete(3),
    sizes=("num_walkers", "num_cells"),
    rewards={"together": "1 for all agents after a step at whose end they are in one cell"},
)

make_vec = partial(GpuVectorEnv, SPEC)
if "Meet-v0" not in gymnasium.registry:
    gymnasium.register("Meet-v0", vector_entry_point="meet:make_vec")
