"""What adapters ask of an env whose tensors they hand on as they are."""

from __future__ import annotations

from gymnasium.vector import AutoresetMode, VectorEnv

from gpu_vecenv.arrays import Array
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.vector_env import GpuVectorEnv


def checked_env(env: VectorEnv, adapter: str, view: str) -> GpuVectorEnv:
    """The env of this package inside ``env``: with torch's tensors, same-step resets and ``view`` where that matters.

    Raises:
        ParameterError: naming the ``adapter``, what is needed and what came.
    """
    inner = env.unwrapped
    if not isinstance(inner, GpuVectorEnv):
        raise ParameterError(f"{adapter} takes an env of this package, got {type(inner).__name__}.")
    for name, value, wanted in (
        ("array", inner.array, "torch"),
        ("view", inner.view, view if inner.num_agents > 1 else inner.view),
        ("autoreset_mode", inner.autoreset_mode, AutoresetMode.SAME_STEP),
    ):
        if value != wanted:
            raise ParameterError(f"{adapter} needs an env with {name}={wanted!r}, got {value!r}.")
    return inner


def require_fresh(obs: Array, previous: Array, library: str) -> None:
    """Refuse an env that was made with ``copy=False``, for a library that reads an observation after the next step.

    Raises:
        ParameterError: ``obs`` is the array that came a step earlier.
    """
    if obs is previous:
        raise ParameterError(f"{library} keeps observations over a step, so the env must be made with copy=True, got copy=False.")
