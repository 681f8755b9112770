"""``make_vec``: an env by its id, with types that editors and type checkers know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import gymnasium

from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

if TYPE_CHECKING:
    import cupy
    import jax
    import numpy as np
    import torch

# One overload for each array kind: it is a type argument of the env.


@overload
def make_vec(id: str, num_envs: int = 1, *, array: Literal["torch"] = "torch", **options: Any) -> GpuVectorEnv[torch.Tensor]: ...
@overload
def make_vec(id: str, num_envs: int = 1, *, array: Literal["numpy"], **options: Any) -> GpuVectorEnv[np.ndarray]: ...
@overload
def make_vec(id: str, num_envs: int = 1, *, array: Literal["cupy"], **options: Any) -> GpuVectorEnv[cupy.ndarray]: ...
@overload
def make_vec(id: str, num_envs: int = 1, *, array: Literal["jax"], **options: Any) -> GpuVectorEnv[jax.Array]: ...
@overload
def make_vec(id: str, num_envs: int = 1, *, array: str, **options: Any) -> GpuVectorEnv: ...
def make_vec(id: str, num_envs: int = 1, **options: Any) -> Any:
    """Make all worlds of an env as one object, which steps them together on one device.

    It calls ``gymnasium.make_vec``, which gives the same env. Only the types differ: of this function, a type checker knows the
    env and its arrays.

    Example::

        env = gpu_vecenv.make_vec("WarpTag-v0", num_envs=64, num_runners=20)
        obs, info = env.reset(seed=0)
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())

    Args:
        id: id of an env, such as ``WarpTag-v0``; ``gpu-vecenv envs`` lists them. ``module:MyEnv-v0`` imports the module first,
            which registers the id.
        num_envs: length of the leading axis of all arrays: worlds, or with ``view="agents"`` rows of agents.
        options: keywords of ``GpuVectorEnv``, and parameters of the env by their names. The most used are ``array`` (kind of
            all arrays: ``"torch"``, ``"numpy"``, ``"cupy"`` or ``"jax"``), ``device`` (``"auto"``, ``"cpu"``, ``"cuda:0"``),
            ``view`` (``"worlds"`` or ``"agents"``), ``autoreset_mode`` and ``copy``.

    Returns:
        The env, a ``GpuVectorEnv``.

    Raises:
        UnknownParameterError: a keyword that is neither an option nor a parameter of the env.
        GpuVecenvError: another mistake in the options, see ``GpuVectorEnv``.
        gymnasium.error.Error: no env has this id.
    """
    return gymnasium.make_vec(id, num_envs, **options)
