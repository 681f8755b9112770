"""Faulty: a test env whose hooks make a mistake in step 2."""

from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Param, Role, Scratch, Table
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

KERNEL = Path(__file__).with_name("faulty.cu")

SPEC = EnvSpec(
    name="Faulty-v0",
    kernel=KERNEL,
    roles=(Role("walker", 3),),
    params=(
        Param("width", 4, "int32", "columns", low=1, high=9),
        Param("height", 5, "int32", "rows", low=1, high=9),
        Param("fault", 0, "int32", "number of the mistake; 0 for none"),
        TIME_LIMIT,
    ),
    sizes=("width", "height"),
    state=(
        Field("x", "int32", ("num_agents",), "column of an agent"),
        Field("v", "float32", ("num_agents", 2), "speed"),
        Field("cells", "float32", ("height", "width"), "numbers"),
    ),
    tables=(Table("list", lambda p: np.zeros(5), "numbers"),),
    scratch=(Scratch("sums", "float32", ("num_agents",), "sums"),),
    observation=lambda p: Box(-np.inf, np.inf, (2,), np.float32),
    action=lambda p: Discrete(2),
)

make_vec = partial(GpuVectorEnv, SPEC)

if "Faulty-v0" not in gymnasium.registry:
    gymnasium.register("Faulty-v0", vector_entry_point="tests.debug.faulty:make_vec")


def line_of(text: str) -> int:
    """Line of the kernel that has a text."""
    (line,) = [number for number, line in enumerate(KERNEL.read_text().splitlines(), start=1) if text in line]
    return line
