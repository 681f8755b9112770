"""Declarative description of an env. The argument struct, spaces, views and docs are generated from it."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space

from gpu_vecenv.errors import ParameterError, ShapeError, UnknownParameterError
from gpu_vecenv.spec.given import abbreviated, host_array, limits, real_number, rounded

Params = Mapping[str, Any]

SMALLEST, LARGEST = 1e-9, 1e6
"""Bounds of float parameters. ``LARGEST`` applies to parameters without a bound, ``SMALLEST`` is meant for positive ones.

Products of up to six numbers at ``LARGEST``, or of up to four at ``SMALLEST``, are normal float32 numbers.
"""


@dataclass(frozen=True)
class Param:
    """A parameter of the env, given as a keyword.

    ``dtype`` is ``"float32"``, ``"int32"`` or ``"bool"`` for a scalar that the kernel reads, ``"float64"`` for one from
    which only constants are computed, and ``None`` for a value that is not a scalar, such as explicit starts. ``low`` and
    ``high`` are inclusive. The bounds of a float default to plus and minus ``LARGEST``. If ``per_world`` is true, callers
    may give an array with one float32 for each world.
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
        if self.dtype in ("float32", "float64"):  # bounds are rounded like the values that are compared with them
            object.__setattr__(self, "low", rounded(-LARGEST if self.low == -math.inf else self.low, self.dtype))
            object.__setattr__(self, "high", rounded(LARGEST if self.high == math.inf else self.high, self.dtype))


TIME_LIMIT = Param("max_episode_steps", 0, "int32", "time limit; 0 for none", "steps", low=0)
"""Time limit of classic control, with Gymnasium's name."""


RESERVED_NAMES = ("t", "terminated", "truncated")
"""Members of ``gv_state()`` in every env, which fields must not use as names."""

FIELD_DTYPES = ("float32", "int32", "uint8", "uint16", "uint64")
"""Dtypes of state arrays. They have the same size in NumPy and in kernels."""


@dataclass(frozen=True)
class Field:
    """A state array with the leading axis worlds. ``shape`` holds ints and names of sizes (``"num_agents"``).

    ``dtype`` is one of ``FIELD_DTYPES``; a flag is ``"uint8"``, 0 or 1. ``low`` and ``high`` are inclusive, numbers or
    functions of the parameters; a state with other values is refused. They are required for a field that a kernel uses as an
    index. A float field without them may hold any value, also NaN.

    ``names`` are names of the numbers of a field of shape ``(n,)``, which kernels read as ``gv_state(a, team).NAME``.

    Raises:
        ParameterError: a dtype that is not in ``FIELD_DTYPES``, or a number of names that is not n.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    doc: str
    unit: str = "-"
    low: float | Callable[[Params], float] = -math.inf
    high: float | Callable[[Params], float] = math.inf
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.dtype not in FIELD_DTYPES:
            raise ParameterError(f"state field {self.name!r}: expected a dtype of {', '.join(FIELD_DTYPES)}, got {self.dtype!r}.")
        if self.names and (len(self.names),) != self.shape:
            raise ParameterError(
                f"state field {self.name!r}: expected one name for each number, shape {self.shape}, got {self.names}."
            )

    def bounds(self, params: Params) -> tuple[float, float]:
        """Return the lowest and the highest value; infinite without a bound."""
        low, high = (bound(params) if callable(bound) else bound for bound in (self.low, self.high))
        return low, high


@dataclass(frozen=True)
class Constant:
    """A float32 that the kernel reads. It is computed from the parameters in double precision and rounded once."""

    name: str
    value: Callable[[Params], float]
    doc: str
    unit: str = "-"


@dataclass(frozen=True)
class Table:
    """A read-only float32 array that the kernel indexes, the same for all worlds."""

    name: str
    values: Callable[[Params], np.ndarray]
    doc: str
    unit: str = "-"


@dataclass(frozen=True)
class Workspace:
    """Memory of a world that makes kernels faster and is not state: results do not depend on its contents.

    ``shape`` returns the shape in one world. Elements start as ``fill``.
    """

    name: str
    dtype: str
    shape: Callable[[Params], tuple[int, ...]]
    fill: int
    doc: str


@dataclass(frozen=True)
class ResetOption:
    """A float that ``reset(options={name: ...})`` sets until the next reset. Kernels read it from ``a.reset_bounds``."""

    name: str
    default: float
    doc: str


@dataclass(frozen=True)
class Role:
    """Agents of one kind. ``count`` is their number in a world, or the name of the parameter that holds it."""

    name: str
    count: str | int


@dataclass(frozen=True)
class EnvSpec:
    """Description of an env: everything except its kernel.

    Raises:
        ParameterError: a name of a state field or of one of its numbers is used twice, reserved, or not an identifier.
    """

    name: str
    kernel: Path
    roles: tuple[Role, ...]
    params: tuple[Param, ...]
    state: tuple[Field, ...]
    observation: Callable[[Params], Box]
    action: Callable[[Params], Space]
    sizes: tuple[str, ...] = ()
    """Names of parameters that set lengths of loops, branches or shapes of state fields: compile-time constants on CUDA."""
    constants: tuple[Constant, ...] = ()
    tables: tuple[Table, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    scratch: Callable[[Params], int] | None = None
    """Floats of scratch requested for a team. Kernels find the number granted in ``GV_SCRATCH``."""
    reset_options: tuple[ResetOption, ...] = ()
    alive: str | None = None
    """Name of the state field that is not 0 for agents in the game; None if no agent leaves it."""
    check: Callable[[Params], None] = lambda params: None
    """Function that raises ParameterError if parameters contradict each other."""
    rewards: Mapping[str, str] = field(default_factory=dict)
    """Reward terms for the docs: name and description."""

    def __post_init__(self) -> None:
        names = [*RESERVED_NAMES, *(name for field in self.state for name in field.names or (field.name,))]
        for name in names:
            if not name.isidentifier() or names.count(name) > 1:
                others = ", ".join(RESERVED_NAMES)
                raise ParameterError(f"{self.name}: state names must be different identifiers other than {others}, got {name!r}.")

    def resolve(self, given: Mapping[str, Any]) -> Params:
        """Return all parameters: those of ``given``, checked and converted, and defaults for the rest.

        Raises:
            UnknownParameterError: a name that the env does not have.
            ParameterError: a value outside its range or of the wrong type.
        """
        known = {param.name: param for param in self.params}
        for name in given:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise UnknownParameterError(
                    f"{self.name} has no parameter {name!r}.{hint} It has: {', '.join(known)}."
                )
        params: dict[str, Any] = {}
        for name, param in known.items():
            default = param.default(params) if callable(param.default) else param.default
            params[name] = _convert(self.name, param, given.get(name, default))
        resolved = MappingProxyType(params)
        self.check(resolved)
        return resolved

    @property
    def kernel_params(self) -> tuple[Param, ...]:
        """Parameters that are members of the argument struct."""
        return tuple(param for param in self.params if param.dtype in ("float32", "int32", "bool"))

    def role_counts(self, params: Params) -> dict[str, int]:
        """Return the number of agents of each role in a world, in the order of the roles."""
        return {role.name: params[role.count] if isinstance(role.count, str) else role.count for role in self.roles}


def _convert(env: str, param: Param, value: Any) -> Any:
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
    """Convert the values of a parameter to float32 (num_worlds,)."""
    expected = "a number, or numbers of shape (num_worlds,)"
    values = number_array(value, where, expected)
    if values.ndim != 1:
        raise ParameterError(f"{where} must be {expected}, got the shape {values.shape}.")
    with np.errstate(over="ignore"):
        converted = values.astype(np.float32)
    inside = np.isfinite(converted) & (converted >= param.low) & (converted <= param.high)
    if not inside.all():
        world = int(np.argmin(inside))
        _convert(where.partition(":")[0], dataclasses.replace(param, per_world=False), float(values[world]))
    return converted


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
