"""The declarative description of an env: the one truth from which struct, spaces, views and docs are made."""

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
"""``LARGEST`` bounds every float parameter that names no bound. ``SMALLEST`` is the lower bound that specs give to positive ones.

Products of up to six large or four small numbers are normal float32 numbers.
"""


@dataclass(frozen=True)
class Param:
    """A keyword of the env.

    ``dtype`` is ``"float32"``, ``"int32"`` or ``"bool"`` for a scalar that the kernel reads, ``"float64"`` for one that
    only constants are computed from, and ``None`` for a value that is no scalar (explicit starts, say). ``low`` and
    ``high`` are inclusive. A float without a bound lies within plus and minus ``LARGEST``.
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
        if self.dtype in ("float32", "float64"):  # bounds are rounded as the values that are compared with them
            object.__setattr__(self, "low", rounded(-LARGEST if self.low == -math.inf else self.low, self.dtype))
            object.__setattr__(self, "high", rounded(LARGEST if self.high == math.inf else self.high, self.dtype))


TIME_LIMIT = Param("max_episode_steps", 0, "int32", "time limit; 0 for none", "steps", low=0)
"""The time limit of classic control, as Gymnasium spells it."""


RESERVED_NAMES = ("t", "terminated", "truncated")
"""Names in ``gv_state()`` of every env."""

FIELD_DTYPES = ("float32", "int32", "uint8", "uint16", "uint64")
"""Of state arrays: types that are as long in NumPy as in a kernel."""


@dataclass(frozen=True)
class Field:
    """A state array with the leading axis worlds. ``shape`` holds ints and names of sizes (``"num_agents"``).

    ``dtype`` is one of ``FIELD_DTYPES``; a flag is ``"uint8"``, 0 or 1. ``low`` and ``high`` are inclusive, numbers or
    functions of the parameters: the values a kernel was written for, outside which a state is refused. A kernel that indexes by
    a field names them. A float field without them takes every value, NaN included.

    ``names`` names the numbers of a field of shape ``(n,)``: kernels find them as ``gv_state(a, team).NAME``.

    Raises:
        ParameterError: another dtype, or another number of names.
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
            raise ParameterError(f"state field {self.name!r}: expected one name a number, shape {self.shape}, got {self.names}.")

    def bounds(self, params: Params) -> tuple[float, float]:
        """The lowest and the highest value; infinite where the field names none."""
        low, high = (bound(params) if callable(bound) else bound for bound in (self.low, self.high))
        return low, high


@dataclass(frozen=True)
class Constant:
    """A float32 that the kernel reads, computed in double from the parameters and rounded once."""

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
    """Memory of a world that speeds kernels up and is no state: what is in it changes no result.

    ``shape`` is that of one world, from the parameters; elements start as ``fill``.
    """

    name: str
    dtype: str
    shape: Callable[[Params], tuple[int, ...]]
    fill: int
    doc: str


@dataclass(frozen=True)
class ResetOption:
    """A float that ``reset(options={name: ...})`` sets until the next reset; it reaches the kernel in ``reset_bounds``."""

    name: str
    default: float
    doc: str


@dataclass(frozen=True)
class Role:
    """Agents that are alike. ``count`` is the name of the parameter that holds their number, or a number."""

    name: str
    count: str | int


@dataclass(frozen=True)
class EnvSpec:
    """Everything there is to know about an env apart from its kernel text.

    Raises:
        ParameterError: two state fields, or numbers of them, have the same name, or one that kernels cannot use.
    """

    name: str
    kernel: Path
    roles: tuple[Role, ...]
    params: tuple[Param, ...]
    state: tuple[Field, ...]
    observation: Callable[[Params], Box]
    action: Callable[[Params], Space]
    sizes: tuple[str, ...] = ()
    """Parameters that shape loops: compile-time constants on CUDA."""
    constants: tuple[Constant, ...] = ()
    tables: tuple[Table, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    scratch: Callable[[Params], int] | None = None
    """Floats of scratch that a team would like. ``GV_SCRATCH`` is what it gets: less if a block has less shared memory."""
    reset_options: tuple[ResetOption, ...] = ()
    alive: str | None = None
    """State field that tells who is still in the game; None where nobody leaves."""
    check: Callable[[Params], None] = lambda params: None
    """Raises ParameterError where parameters contradict each other."""
    rewards: Mapping[str, str] = field(default_factory=dict)
    """Reward terms, for the docs: name to what pays it."""

    def __post_init__(self) -> None:
        names = [*RESERVED_NAMES, *(name for field in self.state for name in field.names or (field.name,))]
        for name in names:
            if not name.isidentifier() or names.count(name) > 1:
                others = ", ".join(RESERVED_NAMES)
                raise ParameterError(f"{self.name}: state names must be different identifiers other than {others}, got {name!r}.")

    def resolve(self, given: Mapping[str, Any]) -> Params:
        """Defaults overridden by ``given``, checked and converted.

        Raises:
            UnknownParameterError: a name the env does not have.
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
        """The parameters that are members of the kernel's argument struct."""
        return tuple(param for param in self.params if param.dtype in ("float32", "int32", "bool"))

    def role_counts(self, params: Params) -> dict[str, int]:
        """Agents of each role in a world, in the order of the roles."""
        return {role.name: params[role.count] if isinstance(role.count, str) else role.count for role in self.roles}


def _convert(env: str, param: Param, value: Any) -> Any:
    """The value as the kernel will see it; floats are rounded to float32 here, once."""
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
    """One float32 a world."""
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
    """An explicit start, one number an agent, as float64 (agents,); empty where the parameter is None.

    Raises:
        ParameterError: no real, finite numbers.
        ShapeError: another number of them.
    """
    if params[name] is None:
        return np.zeros(0)
    values = number_array(params[name], f"{env}: {name}", "numbers, one an agent").astype(np.float64)
    if values.shape != (agents,):
        raise ShapeError(f"{env}: {name} must have shape ({agents},), one value an agent, got {values.shape}.")
    if not np.isfinite(values).all():
        raise ParameterError(f"{env}: {name} must be finite, got {abbreviated(params[name])}.")
    return values


def number_array(value: Any, where: str, expected: str) -> np.ndarray:
    """Real numbers, an array of any kind or nested lists, on the host; ``expected`` says so in an error's text.

    Raises:
        ParameterError: something else.
    """
    try:
        values = np.asarray(host_array(value, where))
    except (TypeError, ValueError, RuntimeError) as error:  # a list that is no array, a tensor that holds no numbers
        raise ParameterError(f"{where} must be {expected}, got {abbreviated(value)}.") from error
    if values.dtype.kind not in "fiu":
        raise ParameterError(f"{where} must be {expected}, got {abbreviated(value)}.")
    return values
