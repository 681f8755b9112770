"""Continuous Tag: taggers chase runners on a square. Rules, observation and parameters: README.md in this folder."""

from functools import partial

from gpu_vecenv.envs.tag.spec import SPEC
from gpu_vecenv.vector_env import GpuVectorEnv

make_vec = partial(GpuVectorEnv, SPEC)
"""Entry point of ``gymnasium.make_vec("WarpTag-v0")``."""
