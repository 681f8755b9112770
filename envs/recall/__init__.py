"""Recall: the first observation decides the action that pays at the end."""

from functools import partial

from gpu_vecenv.envs.recall.spec import SPEC
from gpu_vecenv.spec.contract import with_contract
from gpu_vecenv.vector.env.single_env import entry_point
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

__doc__ = with_contract(__doc__, __file__)

make_vec = partial(GpuVectorEnv, SPEC)
"""Entry point of ``gymnasium.make_vec("WarpRecall-v0")``."""

make = entry_point(SPEC)
"""Entry point of ``gymnasium.make("WarpRecall-v0")``."""
