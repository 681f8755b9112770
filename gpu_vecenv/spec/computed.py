"""Results of a spec's functions: spaces, sizes and numbers, computed from the parameters and checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from gpu_vecenv.errors import GpuVecenvError, OutOfMemoryError, SpecError
from gpu_vecenv.spec.validation import abbreviated, host_array, real_number, require_part, whole_number

MAX_NUMBERS = 2**31 - 1
"""Most numbers of an array in one world, and most choices of an entry; kernels count them in 32 bits."""


def result_of(where: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of a spec.

    Args:
        where: name of the function and of its env in error messages.
        function: the function.
        args: its arguments.

    Raises:
        GpuVecenvError: the function raised one.
        OutOfMemoryError: the function raised MemoryError.
        SpecError: the function raised any other error.
    """
    try:
        return function(*args)
    except GpuVecenvError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"{where} needs more memory than is free: {error}") from error
    except Exception as error:
        said = abbreviated(error) if len(str(error)) > 100 else f"{type(error).__name__}: {error}"
        raise SpecError(f"{where} must return without an error, got {said}.") from error


def observation_box(where: str, space: Any) -> Box:
    """Return the space of observations, or of their shared part, that a function of a spec returned.

    Raises:
        SpecError: not a float32 Box with at least one number.
    """
    holds = isinstance(space, Box) and space.dtype == np.float32 and 1 <= math.prod(space.shape) <= MAX_NUMBERS
    require_part(holds, where, "a Box of float32 with at least one number", space)
    box: Box = space
    return box


def action_space(where: str, value: Any) -> Space[Any]:
    """Return the space of actions that a function of a spec returned.

    Raises:
        SpecError: another space, indices that do not begin at 0, or a dtype that actions cannot have.
    """
    require_part(isinstance(value, Discrete | MultiDiscrete | Box), where, "a Discrete, a MultiDiscrete or a Box", value)
    space: Discrete | MultiDiscrete | Box = value
    if isinstance(space, Box):
        require_part(space.dtype in (np.float32, np.float64), where, "a Box of float32 or float64", space)
        return space
    require_part(space.dtype in (np.int32, np.int64), where, "a space of int32 or int64", space.dtype)
    require_part(not np.any(space.start), where, "a space of indices from 0 on", space)
    choices = space.n if isinstance(space, Discrete) else space.nvec
    holds = bool(np.all(np.less_equal(choices, MAX_NUMBERS)))
    require_part(holds, where, f"a space of at most {MAX_NUMBERS} choices for each entry", space)
    return space


def whole_in(where: str, value: Any, low: int, high: int) -> int:
    """Return an integer within inclusive bounds.

    Raises:
        SpecError: another value.
    """
    number = whole_number(value)
    holds = number is not None and low <= number <= high
    require_part(holds, where, f"an integer from {low} to {high}", value)
    return int(value)


def masked_entries(where: str, entries: Any) -> tuple[int, ...]:
    """Return the numbers of those entries of an action that have a mask.

    Raises:
        SpecError: not a tuple of different integers.
    """
    integers = tuple(map(whole_number, entries)) if isinstance(entries, tuple | list) else (None,)
    holds = None not in integers and len({*integers}) == len(integers)
    require_part(holds, where, "a tuple of different integers, the numbers of entries", entries)
    return tuple(int(entry) for entry in entries)


Effects = tuple[tuple[str, tuple[int, ...]], ...]
"""Groups of entries of an action: names and entries."""


def effect_groups(where: str, groups: Any) -> Effects:
    """Return groups of entries of an action that share a flag of effect.

    Args:
        where: the place, for messages.
        groups: entries by name, or pairs of both.

    Raises:
        SpecError: not different integers by name, or a group without an entry.
    """
    pairs = tuple(groups.items()) if isinstance(groups, Mapping) else groups
    expected = "a dict from names to numbers of entries, each in one group"
    require_part(isinstance(pairs, tuple), where, expected, groups)
    named_groups: list[tuple[str, tuple[int, ...]]] = []
    taken: list[int] = []
    for pair in pairs:
        holds = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and bool(pair[0])
        entries = tuple(map(whole_number, pair[1])) if holds and isinstance(pair[1], tuple | list | range) else ()
        require_part(bool(entries) and None not in entries, where, expected, groups)
        named_groups.append((pair[0], tuple(int(entry) for entry in pair[1])))
        taken += named_groups[-1][1]
    require_part(len({*taken}) == len(taken) and len(dict(named_groups)) == len(named_groups), where, expected, groups)
    return tuple(named_groups)


def array_shape(where: str, shape: Any) -> tuple[int, ...]:
    """Return the shape of an array in one world.

    Raises:
        SpecError: not a tuple of integers from 0 on, or too many numbers.
    """
    require_part(isinstance(shape, tuple | list), where, "a tuple of integers", shape)
    lengths = tuple(whole_in(where, length, 0, MAX_NUMBERS) for length in shape)
    require_part(math.prod(lengths) <= MAX_NUMBERS, where, f"of at most {MAX_NUMBERS} numbers", shape)
    return lengths


def bounds_of(where: str, low: Any, high: Any) -> tuple[float, float]:
    """Return inclusive bounds of numbers.

    Raises:
        SpecError: not numbers, NaN, or a lower bound above the upper one.
    """
    bounds = []
    for name, bound in (("low", low), ("high", high)):
        number = real_number(bound)
        require_part(number is not None and number == number, f"{where}: {name}", "a number", bound)
        bounds.append(bound if number is None else number)
    require_part(bounds[0] <= bounds[1], f"{where}: low", f"at most high, {abbreviated(bounds[1])}", low)
    return bounds[0], bounds[1]


def real_array(where: str, returned: Any) -> np.ndarray:
    """Return real numbers that a function of a spec returned: a number, nested lists, or an array of any kind.

    Raises:
        SpecError: other values, or lists of unequal lengths.
        ArrayTypeError, DeviceError: an array of values that cannot be read.
    """
    returned = host_array(returned, where)
    try:
        values = np.asarray(returned)
    except ValueError as error:  # lists of unequal lengths
        raise SpecError(f"{where} must be real numbers, got {abbreviated(returned)}.") from error
    real = values.dtype.kind in "biuf" or values.dtype.kind == "O" and all(isinstance(one, Real) for one in values.flat)
    require_part(real, where, "real numbers", returned)
    return values
