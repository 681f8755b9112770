"""Arrays that hooks read and write under ``device="python"``: bounds, races and reads before a write are errors."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, TypeAlias

import numpy as np

Lane: TypeAlias = "int | tuple[int, int] | None"
"""Lane that runs: its number, the numbers of a pair, or None for all lanes alike."""


class Trace:
    """State that the arrays of a hook share: the lane that runs and its agent, and the number of barriers that it has passed.

    Args:
        path: file of the hooks. Reads of other files, such as those of pdb, leave no trace.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lane: Lane = None
        self.agent: int | None = None  # in phases over agents
        self.epoch = 0
        self.quiet = False

    def follows(self) -> bool:
        """Return True if the function that accesses an array stands in the file of the hooks."""
        if self.quiet:
            return False
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in OWN:
            frame = frame.f_back  # type: ignore[assignment]
        return frame is not None and frame.f_code.co_filename == self.path


OWN = {__file__}
"""Files of the interpreter, which stand between a hook and an array."""


class Checked:
    """An array in memory of the kernel.

    Args:
        trace: that of the hook.
        name: what messages call it.
        address: of its first element.
        dtype: dtype of an element.
        count: elements.
        fresh: True if no element holds anything before the hook writes it.
        finite: True if an element must not become infinite or NaN.
    """

    def __init__(
        self, trace: Trace, name: str, address: int, dtype: str, count: int, fresh: bool = False, finite: bool = False
    ) -> None:
        kind = np.dtype(dtype)
        memory: Any = (ctypes.c_char * (count * kind.itemsize)).from_address(address) if count else b""
        self.values = np.frombuffer(memory, kind)
        self.trace, self.name, self.fresh, self.finite = trace, name, fresh, finite
        self.writers: dict[int, tuple[int, Lane]] = {}
        self.readers: dict[int, tuple[int, Lane, bool]] = {}

    def place(self, k: Any) -> int:
        """Return an index.

        Raises:
            IndexError: it lies outside the array.
        """
        if not 0 <= k < len(self.values):
            raise IndexError(f"index {k} of {self.name}, which has the elements 0 to {len(self.values) - 1}")
        return int(k)

    def read(self, k: Any) -> Any:
        """Return an element; an integer as np.int32, a float as np.float32."""
        at = self.place(k)
        if self.trace.follows():
            self._note_read(at)
        value = self.values[at]
        return np.float32(value) if self.values.dtype.kind == "f" else np.int32(value)

    def write(self, k: Any, value: Any) -> None:
        """Write an element.

        Raises:
            OverflowError: the dtype does not hold the value.
            ValueError: the value is not finite and must be, or the write is a race.
        """
        at = self.place(k)
        if self.trace.follows():
            self._note_write(at)
        else:
            self.writers.setdefault(at, (-1, None))
        kind = self.values.dtype
        if kind.kind in "iu" and not np.iinfo(kind).min <= int(value) <= np.iinfo(kind).max:
            raise OverflowError(f"overflow: {value} in {self.name}, which is {kind}")
        if self.finite and not np.isfinite(value):
            element = f"element {at} of " if len(self.values) > 1 else ""
            raise ValueError(f"{element}{self.name} becomes {value}")
        self.values[at] = value

    def _note_read(self, at: int) -> None:
        trace, writer = self.trace, self.writers.get(at)
        if writer is None and self.fresh:
            raise ValueError(f"reads element {at} of {self.name} before anything writes it")
        if writer is not None and writer[0] == trace.epoch and writer[1] != trace.lane:
            raise ValueError(f"reads element {at} of {self.name}, which {_lane(writer[1])} writes in the same phase")
        reader = self.readers.get(at)
        several = reader is not None and reader[0] == trace.epoch and (reader[2] or reader[1] != trace.lane)
        self.readers[at] = trace.epoch, trace.lane, several

    def _note_write(self, at: int) -> None:
        trace, writer, reader = self.trace, self.writers.get(at), self.readers.get(at)
        if writer is not None and writer[0] == trace.epoch and writer[1] != trace.lane:
            raise ValueError(f"two lanes write element {at} of {self.name}: {_lane(writer[1])} and {_lane(trace.lane)}")
        if reader is not None and reader[0] == trace.epoch and (reader[2] or reader[1] != trace.lane):
            raise ValueError(f"writes element {at} of {self.name}, which another lane reads in the same phase")
        self.writers[at] = trace.epoch, trace.lane

    def missing(self) -> int | None:
        """Return the first element that the hook has not written; None if it has written all."""
        return next((k for k in range(len(self.values)) if k not in self.writers), None)

    def __getitem__(self, k: Any) -> Any:
        return self.read(k)

    def __setitem__(self, k: Any, value: Any) -> None:
        self.write(k, value)

    def __repr__(self) -> str:
        return repr(self.values)


class Part:
    """Neighbouring elements of an array, such as those of an agent.

    Args:
        array: the array.
        first: number of the first element.
        count: elements.
        name: what messages call it.
    """

    def __init__(self, array: Checked, first: int, count: int, name: str) -> None:
        self.array, self.first, self.count, self.name = array, first, count, name

    def _place(self, k: Any) -> int:
        if not 0 <= k < self.count:
            raise IndexError(f"index {k} of {self.name}, which has the elements 0 to {self.count - 1}")
        return self.first + int(k)

    def __getitem__(self, k: Any) -> Any:
        return self.array.read(self._place(k))

    def __setitem__(self, k: Any, value: Any) -> None:
        self.array.write(self._place(k), value)

    def __repr__(self) -> str:
        return repr(self.array.values[self.first : self.first + self.count])


class ByAxes:
    """Elements of an array of the state by one index for each axis, each of which is checked.

    Args:
        array: the array.
        shape: lengths of the axes.
        names: lengths of the axes as the spec gives them, numbers and names of sizes.
    """

    def __init__(self, array: Checked, shape: tuple[int, ...], names: tuple[int | str, ...]) -> None:
        self.array, self.shape, self.names = array, shape, names

    def _place(self, indices: Any) -> int:
        place = 0
        for axis, (k, length) in enumerate(zip(indices if isinstance(indices, tuple) else (indices,), self.shape, strict=True)):
            if not 0 <= k < length:
                name = f" ({self.names[axis]})" if isinstance(self.names[axis], str) else ""
                raise IndexError(f"index {k} of axis {axis}{name} of {self.array.name}, which has the elements 0 to {length - 1}")
            place = place * length + int(k)
        return place

    def __getitem__(self, indices: Any) -> Any:
        return self.array.read(self._place(indices))

    def __setitem__(self, indices: Any, value: Any) -> None:
        self.array.write(self._place(indices), value)

    def __repr__(self) -> str:
        return repr(self.array.values.reshape(self.shape))


def _lane(lane: Lane) -> str:
    if lane is None:
        return "all lanes"
    return f"the lane of pair {lane[0]}, {lane[1]}" if isinstance(lane, tuple) else f"lane {lane}"
