"""JAX: an env inside ``jax.jit`` and ``jax.lax.scan``. Outside of ``jit``, ``make_vec(..., array="jax")`` needs no adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gpu_vecenv import GpuVectorEnv
from gpu_vecenv.backend.jax_memory import import_jax
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.vector.inputs.role_actions import action_reader
from gpu_vecenv.vector.inputs.seeding import check_one_seed
from gpu_vecenv.vector.outputs.results import dtype_of
from gpu_vecenv.vector.outputs.tree import nest, tree_map

Reset = Callable[[Any], tuple[Any, dict[str, Any]]]
"""From a seed, an int or an integer array (), to obs and info."""

Step = Callable[[Any], tuple[Any, Any, Any, Any, dict[str, Any]]]
"""From actions to obs, reward, terminated, truncated and info."""


def jittable(env: VectorEnv) -> tuple[Reset, Step]:
    """Return ``reset(seed)`` and ``step(actions)`` of an env for use inside ``jax.jit`` and ``jax.lax.scan``.

    Both are ordered ``io_callback``: XLA calls the env from its program, in the order of the program. The state of the worlds
    stays in the env. It is no value of JAX, so neither function can be transformed by ``vmap`` or ``grad``. Actions and results
    pass through the host, also if the env or JAX is on a GPU; ``docs/adapters/jax.md`` has the cost.

    Args:
        env: an env made with ``array="numpy"`` and without wrappers, which stays the caller's to close.

    Returns:
        reset: takes a seed and returns ``obs, info`` like ``GpuVectorEnv.reset(seed=...)``.
        step: takes actions and returns the five results of ``GpuVectorEnv.step``, as JAX arrays.

        A seed that is no integer, and actions of a wrong shape or dtype, raise ParameterError, ShapeError or ArrayTypeError while
        JAX traces the function. Errors that depend on values, such as ActionError, stop the program with an error of JAX that
        quotes them.

    Raises:
        ParameterError: an env of another kind, with another array kind, or with ``copy=False``.
        MissingExtraError: JAX is not installed.
    """
    if not isinstance(env, GpuVectorEnv):
        raise ParameterError(
            f"jittable() takes an env of this package without wrappers, got {type(env).__name__}; do in JAX what wrappers do."
        )
    if env.array != "numpy":
        raise ParameterError(f'callbacks of JAX pass arrays through the host: jittable() needs array="numpy", got {env.array!r}.')
    if env.device == "cpu" and not env.worlds.outputs.copy:
        raise ParameterError("JAX may read results after the next step: jittable() needs an env with copy=True, got copy=False.")
    jax = import_jax("jittable()")
    from jax.experimental import io_callback

    results = env.worlds.outputs.results
    arrays = [jax.ShapeDtypeStruct(shape, dtype_of(name)) for name, shape in results.shapes.items()]
    of_reset = tuple(nest(place, arrays) for place in results.returned_by_reset)
    of_step = tuple(nest(place, arrays) for place in results.returned)

    reader = action_reader(env.worlds.view, env.worlds.backend, warn=False)

    def zeros_like(traced: Any) -> Any:
        return np.zeros(traced.shape, traced.dtype) if isinstance(traced, jax.Array) else traced

    def reset(seed: Any) -> tuple[Any, dict[str, Any]]:
        """Start new episodes of all worlds."""
        if isinstance(seed, jax.Array):
            if seed.shape or not jax.numpy.issubdtype(seed.dtype, jax.numpy.integer):
                raise ParameterError(f"a seed must be an integer array of shape (), got {seed.dtype} of shape {seed.shape}.")
            obs, info = io_callback(lambda value: env.reset(seed=int(value)), of_reset, seed, ordered=True)
        else:  # a constant of the program, which need not fit in JAX's 32 bits
            number = check_one_seed(seed)
            obs, info = io_callback(lambda: env.reset(seed=number), of_reset, ordered=True)
        return obs, info

    def step(actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Advance every world by one step."""
        reader.read(tree_map(zeros_like, actions))  # raises if shape or dtype are wrong
        obs, reward, terminated, truncated, info = io_callback(
            lambda values: env.step(tree_map(np.asarray, values)), of_step, actions, ordered=True
        )
        return obs, reward, terminated, truncated, info

    return reset, step
