"""Parameters of an env: their declaration, and the conversion of values that a user gives."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_vecenv.errors import ParameterError, ShapeError
from gpu_vecenv.spec.validation import abbreviated, checked_keywords, host_array, limits, real_number, rounded

Params = Mapping[str, Any]

PARAM_DTYPES = ("float32", "int32", "bool", "float64", None)
"""Dtypes of parameters."""

SMALLEST, LARGEST = 1e-9, 1e6
"""Bounds of float parameters. ``LARGEST`` applies to parameters without a bound, ``SMALLEST`` is meant for positive ones.

Products of up to six numbers at ``LARGEST``, or of up to four at ``SMALLEST``, are normal float32 numbers.
"""


@checked_keywords
@dataclass(frozen=True)
class Param:
    """A parameter of the env, given as a keyword.

    Args:
        name: identifier of the keyword: ASCII, no argument of ``make_vec``, no keyword of C++ if the kernel reads it.
        default: value, or function of the parameters declared before this one.
        dtype: ``"float32"``, ``"float64"``, ``"int32"`` or ``"bool"`` for a scalar that the kernel reads, a float64 as
            ``double``; ``None`` for a value that is not a scalar, such as explicit starts.
        doc: meaning, text of one line.
        unit: unit, text of one line.
        low: lower bound, inclusive, of a number. The bounds of a float default to plus and minus ``LARGEST``.
        high: upper bound, in the same way.
        per_world: True if callers may give an array with one number for each world, of a dtype other than bool; kernels read the
            world's number, ``w.params.NAME``. An int32 by world chooses data: it indexes the leading axis of a table,
            and its bounds keep it inside.
    """

    name: str
    default: Any
    dtype: str | None
    doc: str
    unit: str = "-"
    low: float = -math.inf
    high: float = math.inf
    per_world: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, str) or self.dtype not in ("float32", "float64"):
            return
        for name, unbounded, largest in (("low", -math.inf, -LARGEST), ("high", math.inf, LARGEST)):
            bound = real_number(getattr(self, name))
            if bound is not None:  # bounds are rounded like the values that are compared with them
                object.__setattr__(self, name, rounded(largest if bound == unbounded else bound, self.dtype))


TIME_LIMIT = Param("max_episode_steps", 0, "int32", "time limit; 0 for none", "steps", low=0)
"""Time limit of classic control, with Gymnasium's name."""

TIME_LIMITS = ("max_episode_steps", "episode_length", "max_cycles", "max_steps")
"""Names of the parameter that limits the steps of an episode; 0 is no limit."""


def step_limit(params: Params) -> int:
    """Return the time limit of an episode in steps, the longest of all worlds; 0 if there is none."""
    return max((int(np.max(params[name])) for name in TIME_LIMITS if name in params), default=0)


def convert(env: str, param: Param, value: Any) -> Any:
    """Convert a value to the type in the argument struct; a float32 is rounded here, once."""
    if param.dtype is None:
        return value
    where = f"{env}: {param.name}"
    if param.dtype == "bool":
        if not isinstance(value, bool | np.bool_):
            raise ParameterError(f"{where} must be True or False, got {abbreviated(value)}.")
        return bool(value)
    number = real_number(value)
    if param.per_world and number is None:
        return _convert_array(where, param, value)
    if number is None:
        raise ParameterError(f"{where} must be a number, got {abbreviated(value)}.")
    if param.dtype == "int32":
        if number != number or abs(number) > 2**31 - 1 or int(number) != number:
            raise ParameterError(f"{where} must be a 32-bit integer, got {abbreviated(value)}.")
        converted: float = int(number)
    else:
        converted = rounded(number, param.dtype)
        if not math.isfinite(converted):
            raise ParameterError(f"{where} must be finite, got {abbreviated(value)}.")
    if not param.low <= converted <= param.high:
        raise ParameterError(f"{where} must be {limits(param.low, param.high)}, got {abbreviated(value)}.")
    return converted


def _convert_array(where: str, param: Param, value: Any) -> np.ndarray:
    """Convert the values of a parameter to an array (num_worlds,) of its dtype."""
    expected = "a number, or numbers of shape (num_worlds,)"
    values = number_array(value, where, expected)
    if values.ndim != 1:
        raise ParameterError(f"{where} must be {expected}, got the shape {values.shape}.")
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(param.dtype)
        inside = np.isfinite(converted) & (converted >= param.low) & (converted <= param.high)
        if param.dtype == "int32":
            inside &= converted == values
    if not inside.all():
        world = int(np.argmin(inside))
        convert(where.partition(":")[0], dataclasses.replace(param, per_world=False), values[world].item())
    return converted


def require_one_length(env: str, values: Params) -> None:
    """Check that parameters with values by world have as many as each other.

    Raises:
        ShapeError: the message names each with its length.
    """
    lengths = {name: len(array) for name, array in values.items() if isinstance(array, np.ndarray)}
    if len({*lengths.values()}) > 1:
        got = ", ".join(f"{length} of {name}" for name, length in lengths.items())
        raise ShapeError(f"{env}: parameters by world must hold as many numbers as there are worlds, got {got}.")


def agent_values(env: str, params: Params, name: str, agents: int) -> np.ndarray:
    """Return an explicit start, one number for each agent, as float64 (agents,); empty if the parameter is None.

    Raises:
        ParameterError: values that are not real, finite numbers.
        ShapeError: an array of another shape.
    """
    if params[name] is None:
        return np.zeros(0)
    values = number_array(params[name], f"{env}: {name}", "numbers, one for each agent").astype(np.float64)
    if values.shape != (agents,):
        raise ShapeError(f"{env}: {name} must have shape ({agents},), one value for each agent, got {values.shape}.")
    if not np.isfinite(values).all():
        raise ParameterError(f"{env}: {name} must be finite, got {abbreviated(params[name])}.")
    return values


def number_array(value: Any, where: str, expected: str) -> np.ndarray:
    """Return real numbers, given as an array of any kind or as nested lists, as a NumPy array.

    Args:
        value: the numbers.
        where: name of the value in error messages.
        expected: description of valid values in error messages.

    Raises:
        ParameterError: a value that is not an array of real numbers.
    """
    try:
        values = np.asarray(host_array(value, where))
    except (TypeError, ValueError, RuntimeError) as error:  # such as lists of unequal lengths, or a tensor without values
        raise ParameterError(f"{where} must be {expected}, got {abbreviated(value)}.") from error
    if values.dtype.kind not in "fiu":
        raise ParameterError(f"{where} must be {expected}, got {abbreviated(value)}.")
    return values
