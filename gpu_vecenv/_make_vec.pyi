"""Types of ``gpu_vecenv.make_vec``, which is Gymnasium's function: the array kind is a type argument of the env."""

from typing import Any, Literal, overload

import cupy
import jax
import numpy as np
import torch

from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

# One overload for each array kind.
@overload
def make_vec(id: str, num_envs: int = 1, *, array: Literal["torch"] = "torch", **kwargs: Any) -> GpuVectorEnv[torch.Tensor]: ...
@overload
def make_vec(id: str, num_envs: int = 1, *, array: Literal["numpy"], **kwargs: Any) -> GpuVectorEnv[np.ndarray]: ...
@overload
def make_vec(id: str, num_envs: int = 1, *, array: Literal["cupy"], **kwargs: Any) -> GpuVectorEnv[cupy.ndarray]: ...
@overload
def make_vec(id: str, num_envs: int = 1, *, array: Literal["jax"], **kwargs: Any) -> GpuVectorEnv[jax.Array]: ...
@overload
def make_vec(id: str, num_envs: int = 1, *, array: str, **kwargs: Any) -> GpuVectorEnv: ...
