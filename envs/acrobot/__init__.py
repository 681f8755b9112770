"""Acrobot by the rules of Gymnasium's Acrobot-v1. Details: README.md in this folder."""

from functools import partial

from gpu_vecenv.envs.acrobot.spec import SPEC
from gpu_vecenv.single_env import SingleEnv
from gpu_vecenv.vector_env import GpuVectorEnv

make_vec = partial(GpuVectorEnv, SPEC)
"""Entry point of ``gymnasium.make_vec("WarpAcrobot-v1")``."""

make = partial(SingleEnv, SPEC)
"""Entry point of ``gymnasium.make("WarpAcrobot-v1")``."""
