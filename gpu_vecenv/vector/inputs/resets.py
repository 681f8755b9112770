"""Checks of the arguments of ``reset`` and ``copy_worlds``, before any state changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.validation import abbreviated, host_array, real_number, require_one_of, rounded


def read_mask(mask: Any, num_envs: int, world_mask: Callable[[np.ndarray], np.ndarray]) -> np.ndarray | None:
    """Return ``reset_mask``, a mask over envs, as a mask over worlds on the host, bool (num_worlds,); None for None.

    Args:
        mask: value of a caller.
        num_envs: length of the mask.
        world_mask: turns a mask over envs into one over worlds.

    Raises:
        ArrayTypeError: not a bool array.
        DeviceError: a tensor on the device "meta".
        ShapeError: a shape other than (num_envs,).
        ParameterError: no True in the mask, or rows of one world differ.
    """
    if mask is None:
        return None
    host = host_array(mask, "reset_mask")
    if not isinstance(host, np.ndarray) or host.dtype != np.bool_:
        raise ArrayTypeError(f"reset_mask must be a bool array, got {getattr(mask, 'dtype', type(mask).__name__)}.")
    if host.shape != (num_envs,):
        raise ShapeError(f"reset_mask must have shape ({num_envs},), got {host.shape}.")
    if not host.any():
        raise ParameterError("reset_mask must have at least one True.")
    return world_mask(host)


def read_options(options: Mapping[str, Any], spec: EnvSpec) -> np.ndarray:
    """Return the env's own reset options in the order of the spec, float32; a single 0 if it has none.

    Raises:
        ParameterError: an option that the env does not have, a value that is not a finite number, or ``low`` above ``high``.
    """
    known = {option.name: option.default for option in spec.reset_options}
    for name, value in options.items():
        if name not in known:
            raise ParameterError(f"{spec.name} has no reset option {name!r}; it has {', '.join(['reset_mask', *known])}.")
        number = real_number(value)
        if number is None or not math.isfinite(rounded(number)):
            raise ParameterError(f"reset option {name} must be a finite float32, got {abbreviated(value)}.")
        known[name] = float(number)
    low, high = known.get("low", 0.0), known.get("high", math.inf)
    if low > high:
        raise ParameterError(f"reset option low must not be above high, got {low} and {high}.")
    if "high" in known and not math.isfinite(rounded(high - low)):
        raise ParameterError(f"reset options low and high must differ by a finite float32, got {low} and {high}.")
    return np.array(list(known.values()) or [0.0], np.float32)


def read_worlds(source: Any, target: Any, diverge: Any, num_worlds: int) -> tuple[np.ndarray, bool]:
    """Check the arguments of ``copy_worlds``.

    Args:
        source: numbers of the worlds to copy from.
        target: numbers of the worlds to copy to.
        diverge: True or False.
        num_worlds: number of worlds.

    Returns:
        sources: int32 (num_worlds,), the world to copy into each world, -1 for none.
        overlap: True if some world is both a source and a target.

    Raises:
        ArrayTypeError: not integers.
        DeviceError: a tensor on the device "meta".
        ShapeError: more or fewer than one axis, or different lengths.
        ParameterError: a number that no world has, a world that is a target twice, or another ``diverge``.
    """
    require_one_of("diverge", diverge, (True, False))
    both = []
    for name, argument in (("source", source), ("target", target)):
        try:
            worlds = np.asarray(host_array(argument, name))
        except ValueError as error:
            raise ShapeError(f"{name} must have shape (n,), got lists of unequal lengths.") from error
        if worlds.dtype.kind not in "iu":
            raise ArrayTypeError(f"{name} must be integers, got {worlds.dtype}.")
        if worlds.ndim != 1:
            raise ShapeError(f"{name} must have shape (n,), got {worlds.shape}.")
        if ((worlds < 0) | (worlds >= num_worlds)).any():
            raise ParameterError(f"{name} must lie in 0..{num_worlds - 1}, got {abbreviated(worlds.tolist())}.")
        both.append(worlds.astype(np.int32))
    if len(both[0]) != len(both[1]):
        raise ShapeError(f"source and target must have the same length, got {len(both[0])} and {len(both[1])}.")
    if len(np.unique(both[1])) != len(both[1]):
        raise ParameterError(f"target must name each world once, got {abbreviated(both[1].tolist())}.")
    sources = np.full(num_worlds, -1, np.int32)
    sources[both[1]] = both[0]
    return sources, bool((sources[both[0]] >= 0).any())
