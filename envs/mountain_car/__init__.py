"""MountainCar by the rules of Gymnasium's MountainCar-v0."""

from functools import partial

from gpu_vecenv.envs.mountain_car.spec import SPEC
from gpu_vecenv.spec.contract import with_contract
from gpu_vecenv.vector.env.single_env import entry_point
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

__doc__ = with_contract(__doc__, __file__)

make_vec = partial(GpuVectorEnv, SPEC)
"""Entry point of ``gymnasium.make_vec("WarpMountainCar-v0")``."""

make = entry_point(SPEC)
"""Entry point of ``gymnasium.make("WarpMountainCar-v0")``."""
