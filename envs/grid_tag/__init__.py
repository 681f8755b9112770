"""Gridworld Tag: taggers hunt one runner from cell to cell. Rules, observation and parameters: README.md in this folder."""

from functools import partial

from gpu_vecenv.envs.grid_tag.spec import SPEC
from gpu_vecenv.vector_env import GpuVectorEnv

make_vec = partial(GpuVectorEnv, SPEC)
"""Entry point of ``gymnasium.make_vec("WarpGridTag-v0")``."""
