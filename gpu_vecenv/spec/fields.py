"""Declarations of an env's memory: state fields, constants, tables, workspaces, reset options and episode metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.params import Params

RESERVED_NAMES = ("t", "terminated", "truncated")
"""Members of ``gv_state()`` in every env, which fields must not use as names."""

FIELD_DTYPES = ("float32", "int32", "uint8", "uint16", "uint64")
"""Dtypes of state arrays. They have the same size in NumPy and in kernels."""


@dataclass(frozen=True)
class Field:
    """A state array with the leading axis worlds.

    ``shape`` holds ints, names of sizes (``"num_agents"``) and functions of the parameters that return a length, which may be 0.

    ``dtype`` is one of ``FIELD_DTYPES``; a flag is ``"uint8"``, 0 or 1. ``low`` and ``high`` are inclusive, numbers or
    functions of the parameters; a state with other values is refused. They are required for a field that a kernel uses as an
    index. A float field without them may hold any value, also NaN.

    ``names`` are names of the numbers of a field of shape ``(n,)``, which kernels read as ``gv_state(a, team).NAME``.

    Raises:
        ParameterError: a dtype that is not in ``FIELD_DTYPES``, or a number of names that is not n.
    """

    name: str
    dtype: str
    shape: tuple[int | str | Callable[[Params], int], ...]
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

    @property
    def extents(self) -> tuple[int | str, ...]:
        """Lengths of the axes as ints and names of sizes; an axis whose length is a function is a size of its own."""
        return tuple(f"{self.name}_axis{axis}" if callable(n) else n for axis, n in enumerate(self.shape))

    @property
    def axes(self) -> dict[str, Callable[[Params], int]]:
        """The functions of ``shape`` by the names of their sizes."""
        return {str(name): n for name, n in zip(self.extents, self.shape, strict=True) if callable(n)}

    def bounds(self, params: Params) -> tuple[float, float]:
        """Return the lowest and the highest value; infinite without a bound."""
        low, high = (bound(params) if callable(bound) else bound for bound in (self.low, self.high))
        return low, high


TABLE_DTYPES = ("float32", "int32", "int8", "uint8", "uint16")
"""Dtypes of tables."""


@dataclass(frozen=True)
class Constant:
    """A float32 that the kernel reads. It is computed from the parameters in double precision and rounded once."""

    name: str
    value: Callable[[Params], float]
    doc: str
    unit: str = "-"


@dataclass(frozen=True)
class Table:
    """A read-only array that the kernel indexes, the same for all worlds.

    ``dtype`` is one of ``TABLE_DTYPES``. ``values`` are computed once for an env: floats are rounded to float32, and integers
    must fit the dtype. A kernel chooses data by world if a parameter of the dtype int32 with values by world indexes the
    leading axis.

    Raises:
        ParameterError: a dtype that is not in ``TABLE_DTYPES``.
    """

    name: str
    values: Callable[[Params], np.ndarray]
    doc: str
    unit: str = "-"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in TABLE_DTYPES:
            raise ParameterError(f"table {self.name!r}: expected a dtype of {', '.join(TABLE_DTYPES)}, got {self.dtype!r}.")


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


REDUCTIONS = ("sum", "mean", "max", "min", "last")
"""Ways to make one number of an episode from those of its steps. ``mean`` divides by the steps of the episode."""


@dataclass(frozen=True)
class Metric:
    """A number of each episode, given in ``info["episode"]`` in the step that ends it.

    Kernels call ``gv_record_NAME(a, team, value)`` in ``env_step`` by one lane. ``reduction`` is one of ``REDUCTIONS``. An
    episode in which nothing was recorded gives NaN.

    Raises:
        ParameterError: another reduction.
    """

    name: str
    reduction: str
    doc: str
    unit: str = "-"

    def __post_init__(self) -> None:
        if self.reduction not in REDUCTIONS:
            known = ", ".join(REDUCTIONS)
            raise ParameterError(f"metric {self.name!r}: expected a reduction of {known}, got {self.reduction!r}.")

    @property
    def field(self) -> Field:
        """State field that holds the number of the present episode."""
        return Field(f"episode_{self.name}", "float32", (), f"{self.reduction} so far: {self.doc}", self.unit)


@dataclass(frozen=True)
class ResetOption:
    """A float that ``reset(options={name: ...})`` sets until the next reset. Kernels read it from ``a.reset_bounds``."""

    name: str
    default: float
    doc: str


