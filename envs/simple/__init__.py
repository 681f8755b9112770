"""Simple: one agent moves to a landmark."""

from functools import partial

from gpu_vecenv.envs.simple.spec import SPEC
from gpu_vecenv.spec.contract import with_contract
from gpu_vecenv.vector.env.single_env import entry_point
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

__doc__ = with_contract(__doc__, __file__)

make_vec = partial(GpuVectorEnv, SPEC)
"""Entry point of ``gymnasium.make_vec("WarpSimple-v3")``."""

make = entry_point(SPEC)
"""Entry point of ``gymnasium.make("WarpSimple-v3")``."""
