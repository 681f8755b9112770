"""MountainCarContinuous by the rules of Gymnasium's MountainCarContinuous-v0. Details: README.md in this folder."""

from functools import partial

from gpu_vecenv.envs.mountain_car_continuous.spec import SPEC
from gpu_vecenv.single_env import SingleEnv
from gpu_vecenv.vector_env import GpuVectorEnv

make_vec = partial(GpuVectorEnv, SPEC)
"""Entry point of ``gymnasium.make_vec("WarpMountainCarContinuous-v0")``."""

make = partial(SingleEnv, SPEC)
"""Entry point of ``gymnasium.make("WarpMountainCarContinuous-v0")``."""
