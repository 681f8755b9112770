"""Declarations of an env's memory: state fields, constants, tables, workspaces, scratch, reset options and episode metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.validation import checked_keywords, lists_as_tuples

FIELD_DTYPES = ("float32", "float64", "int32", "int64", "uint8", "uint16", "uint64")
"""Dtypes of state arrays. They have the same size in NumPy and in kernels."""


@checked_keywords
@dataclass(frozen=True)
class Field:
    """A state array with the leading axis worlds.

    Args:
        name: identifier in kernels: ASCII, no keyword of C++, not ``t``, ``terminated`` or ``truncated``.
        dtype: ``"float32"``, ``"float64"``, ``"int32"``, ``"int64"``, ``"uint8"``, ``"uint16"`` or ``"uint64"``; a flag is
            ``"uint8"``, 0 or 1.
        shape: shape in one world, a tuple of integers from 1 on, names of sizes, and functions of the parameters that return a
            length, which may be 0. Sizes are ``"num_agents"``, those of ``EnvSpec.sizes``, and those of groups such as
            ``"num_features"``.
        doc: meaning, text of one line.
        unit: unit, text of one line.
        low: lower bound, inclusive, a number or a function of the parameters; a state with a value below is refused. Bounds
            are required for a field that a kernel uses as an index. A float field without bounds may hold any value, also NaN.
        high: upper bound, in the same way.
        names: names of the numbers of a field of shape ``(n,)``, which kernels read as ``w.state.NAME``.
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
        lists_as_tuples(self, "shape", "names")

    @property
    def extents(self) -> tuple[int | str, ...]:
        """Lengths of the axes as ints and names of sizes; an axis whose length is a function is a size of its own."""
        return tuple(f"{self.name}_axis{axis}" if callable(n) else n for axis, n in enumerate(self.shape))

    @property
    def axes(self) -> dict[str, Callable[[Params], int]]:
        """The functions of ``shape`` by the names of their sizes."""
        return {str(name): n for name, n in zip(self.extents, self.shape, strict=True) if callable(n)}

    def bounds(self, params: Params) -> tuple[float, float]:
        """Return the lowest and the highest value; infinite without a bound. ``Layout.bounds`` has them checked."""
        low, high = (bound(params) if callable(bound) else bound for bound in (self.low, self.high))
        return low, high


CONSTANT_DTYPES = ("float32", "float64", "int32", "int64")
"""Dtypes of constants."""

TABLE_DTYPES = ("float32", "float64", "int32", "int64", "int8", "uint8", "uint16")
"""Dtypes of tables."""

WORKSPACE_DTYPES = ("float32", "int32", "int8", "uint8", "uint16", "uint64")
"""Dtypes of workspaces."""


@checked_keywords
@dataclass(frozen=True)
class Constant:
    """A number that the kernel reads. It is computed from the parameters in double precision and rounded once.

    ``dtype`` is ``"float32"``, ``"float64"``, ``"int32"`` or ``"int64"``. ``value`` returns one real number: a float is finite in
    the dtype, and an integer fits it. Kernels read a float64 as ``double``, an int64 as ``gv_i64``.

    ``by_world`` names the parameters with values by world that ``value`` reads. If one of them is given by world, so is the
    constant: ``value`` gets the parameters of one world at a time, once for all worlds that have the same.
    """

    name: str
    value: Callable[[Params], float]
    doc: str
    unit: str = "-"
    dtype: str = "float32"
    by_world: tuple[str, ...] = ()


@checked_keywords
@dataclass(frozen=True)
class Table:
    """A read-only array that the kernel indexes, the same for all worlds unless ``by_world`` says otherwise.

    ``dtype`` is ``"float32"``, ``"float64"``, ``"int32"``, ``"int64"``, ``"int8"``, ``"uint8"`` or ``"uint16"``. ``values``
    returns real numbers, as nested lists or as an array of any kind. They are computed once for an env: floats are rounded to
    the dtype, in which they must be finite, and integers must fit it. Kernels read float64 as ``double``, int64 as ``gv_i64``.
    A kernel chooses data by world if a parameter of the dtype int32 with values by world indexes the leading axis.

    ``by_world`` names the parameters with values by world that ``values`` reads, as those of a constant do. If one of them is
    given by world, each world has a table of its own; all have one shape.
    """

    name: str
    values: Callable[[Params], np.ndarray]
    doc: str
    unit: str = "-"
    dtype: str = "float32"
    by_world: tuple[str, ...] = ()


@checked_keywords
@dataclass(frozen=True)
class Workspace:
    """Memory of a world that makes kernels faster and is not state: results do not depend on its contents.

    ``dtype`` is ``"float32"``, ``"int32"``, ``"int8"``, ``"uint8"``, ``"uint16"`` or ``"uint64"``. ``shape`` returns the shape in
    one world, a tuple of integers from 0 on. Elements start as ``fill``, a number of the dtype.
    """

    name: str
    dtype: str
    shape: Callable[[Params], tuple[int, ...]]
    fill: int
    doc: str


SCRATCH_DTYPES = ("float32", "int32", "uint16", "uint8")
"""Dtypes of arrays in scratch."""


@checked_keywords
@dataclass(frozen=True)
class Scratch:
    """An array that the lanes of a team share for one launch; ``w.scratch.NAME`` in hooks.

    Args:
        name: identifier in kernels. In an array ``rows`` of float32, ``w.pairs`` gathers rows of observations, if it has room for
            all features of its agents and for 6 n - 2 floats more, where n is the number of their roles.
        dtype: ``"float32"``, ``"int32"``, ``"uint16"`` or ``"uint8"``.
        shape: tuple of integers from 1 on and names of sizes. The last array may have a function of the parameters in its place,
            which returns a number of elements, from 0 on; on the host it has more. ``w.scratch.NAME_room`` is its length.
        doc: meaning, text of one line.
        align: floats of which its offset is a multiple, such as 4 for memory that is read as vectors of four. An array ``rows``,
            which is copied in such vectors, begins at a multiple of 4 in any case.
        most: on CUDA, an array of more elements gets no memory, and ``w.scratch.NAME_room`` is 0; None for any number.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | Callable[[Params], int]
    doc: str = ""
    align: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.shape):
            lists_as_tuples(self, "shape")

    @property
    def is_rest(self) -> bool:
        """True if a function returns the number of elements."""
        return callable(self.shape)

    @property
    def extents(self) -> tuple[int | str, ...]:
        """Lengths of the axes; none for an array whose number of elements a function returns."""
        return () if callable(self.shape) else self.shape

    @property
    def boundary(self) -> int:
        """Floats of which its offset is a multiple."""
        return math.lcm(self.align, 4) if self.name == "rows" else self.align

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize


REDUCTIONS = ("sum", "mean", "max", "min", "last")
"""Ways to make one number of an episode from those of its steps. ``mean`` divides by the steps of the episode."""


@checked_keywords
@dataclass(frozen=True)
class Metric:
    """A number of each episode: ``info["episode"][NAME]``, valid where ``info["_episode"]`` is true, in the step that ends it.

    Hooks call ``w.record.NAME(value)`` in ``env_step``. ``reduction`` is ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or
    ``"last"``; a mean is over the steps of the episode. An episode in which nothing was recorded gives NaN.
    """

    name: str
    reduction: str
    doc: str
    unit: str = "-"

    @property
    def field(self) -> Field:
        """State field that holds the number of the present episode."""
        return Field(f"episode_{self.name}", "float32", (), f"{self.reduction} so far: {self.doc}", self.unit)


@checked_keywords
@dataclass(frozen=True)
class ResetOption:
    """A float that ``reset(options={name: ...})`` sets until the next reset. Kernels read ``w.options.NAME``.

    ``name`` is an identifier other than ``reset_mask``. ``default`` is finite in float32. An option ``low`` must not be above an
    option ``high``, by default or as given.
    """

    name: str
    default: float
    doc: str


