"""States of wrappers that callers give back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.validation import abbreviated, describe, host_array


def fitting_state(state: Any, present: Any, memory: Memory, where: str) -> Any:
    """Return a state whose arrays are copies in ``memory``.

    Args:
        state: dicts of dicts, bools and arrays of any kind.
        present: a state whose keys, shapes and dtypes the given one must have.
        memory: memory of the arrays.
        where: name of the state in errors.

    Raises:
        ParameterError: other keys, or another value than a bool.
        ArrayTypeError, ShapeError: an array of another dtype or shape.
    """
    if isinstance(present, dict):
        if not isinstance(state, Mapping) or set(state) != set(present):
            got = f"the keys {list(state)}" if isinstance(state, Mapping) else type(state).__name__
            raise ParameterError(f"{where} must be a dict with the keys {list(present)}, got {got}.")
        return {name: fitting_state(state[name], value, memory, f"{where}, {name},") for name, value in present.items()}
    if isinstance(present, bool):
        if not isinstance(state, bool):
            raise ParameterError(f"{where} must be True or False, got {abbreviated(state)}.")
        return state
    dtype, got = describe(present).dtype, describe(state).dtype
    if got != dtype:
        raise ArrayTypeError(f"{where} must be an array of {dtype}, got {got or type(state).__name__}.")
    if tuple(state.shape) != tuple(present.shape):
        raise ShapeError(f"{where} must have the shape {tuple(present.shape)}, got {tuple(state.shape)}.")
    return memory.from_numpy(host_array(state, where))
