"""Pendulum by the rules of Gymnasium's Pendulum-v1. Details: README.md in this folder."""

from functools import partial

from gpu_vecenv.envs.pendulum.spec import SPEC
from gpu_vecenv.single_env import SingleEnv
from gpu_vecenv.vector_env import GpuVectorEnv

make_vec = partial(GpuVectorEnv, SPEC)
"""Entry point of ``gymnasium.make_vec("WarpPendulum-v1")``."""

make = partial(SingleEnv, SPEC)
"""Entry point of ``gymnasium.make("WarpPendulum-v1")``."""
