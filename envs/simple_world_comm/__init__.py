"""World comm: a leader directs a hunt in forests."""

from functools import partial

from gpu_vecenv.envs.simple_world_comm.spec import SPEC
from gpu_vecenv.spec.contract import with_contract
from gpu_vecenv.vector.env.single_env import refusing_entry_point
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

__doc__ = with_contract(__doc__, __file__)

make_vec = partial(GpuVectorEnv, SPEC)
"""Entry point of ``gymnasium.make_vec("WarpSimpleWorldComm-v3")``."""

make = refusing_entry_point(SPEC)
"""Entry point of ``gymnasium.make("WarpSimpleWorldComm-v3")``, which raises an error: the env has several agents."""
