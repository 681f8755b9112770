"""The env Spread with its hooks in Python, under an id of its own."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium

from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.pyhooks.spread import SPEC

KERNEL = Path(__file__).parents[1] / "pyhooks" / "ports" / "spread.py"
PORT = replace(SPEC, name="Ported-v0", kernel=KERNEL)
make_vec = partial(GpuVectorEnv, PORT)

if "Ported-v0" not in gymnasium.registry:
    gymnasium.register("Ported-v0", vector_entry_point="tests.debug.ported:make_vec")
