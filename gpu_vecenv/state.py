"""World state: one array a field, readable and writable as a whole or in part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.backend.memory import Array, Memory, host_array
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.layout import Layout

FINISHED_MARKS = ("terminated", "truncated")


class State:
    """The state arrays of all worlds, on the env's device."""

    def __init__(self, layout: Layout, num_worlds: int, memory: Memory) -> None:
        self._memory = memory
        self.fields: dict[str, Array] = {}
        for field in layout.state:
            zeros = np.zeros(layout.state_shape(field, num_worlds), field.dtype)
            self.fields[field.name] = memory.from_numpy(zeros)
        self._dtypes = {field.name: field.dtype for field in layout.state}

    def addresses(self) -> dict[str, int]:
        """Address of each field, for the kernel's argument struct."""
        return {name: self._memory.address(array) for name, array in self.fields.items()}

    def get(self, out: Memory) -> dict[str, Array]:
        """Copies of all fields in the array kind of ``out``, physical fields first."""
        if out.kind == self._memory.kind:
            return {name: self._memory.copy(array) for name, array in self.fields.items()}
        return {name: out.from_numpy(array) for name, array in self.on_host().items()}

    def on_host(self) -> dict[str, np.ndarray]:
        """Host copies of all fields; waits for the device."""
        return {name: self._memory.to_numpy(array) for name, array in self.fields.items()}

    def set(self, values: Mapping[str, Any]) -> None:
        """Overwrite the fields given and clear the finished marks that are not among them.

        Raises:
            ParameterError: a name that is no field.
            ShapeError, ArrayTypeError: what was expected and what came. Nothing is written then.
        """
        checked = {name: self._checked(name, value) for name, value in values.items()}
        for name, value in checked.items():
            self._memory.assign(self.fields[name], value)
        for name in FINISHED_MARKS:
            if name not in checked:
                self.fields[name][...] = 0

    def copy_worlds(self, source: np.ndarray, target: np.ndarray) -> None:
        """Overwrite the worlds ``target`` with the worlds ``source``, every field; both int64 (n,)."""
        for array in self.fields.values():
            self._memory.copy_rows(array, source, target)

    def _checked(self, name: str, value: Any) -> Array:
        if name not in self.fields:
            raise ParameterError(f"the state has no field {name!r}; it has {', '.join(self.fields)}.")
        target, dtype = self.fields[name], self._dtypes[name]
        if not hasattr(value, "dtype"):
            try:
                value = np.array(value, dtype)
            except (TypeError, ValueError, OverflowError) as error:
                raise ArrayTypeError(f"state field {name} must be {dtype}, got {type(value).__name__}: {error}.") from error
        if tuple(value.shape) != tuple(target.shape):
            raise ShapeError(f"state field {name} must have shape {tuple(target.shape)}, got {tuple(value.shape)}.")
        if str(value.dtype).removeprefix("torch.") != dtype:
            raise ArrayTypeError(f"state field {name} must be {dtype}, got {value.dtype}.")
        return value if type(value) is type(target) else self._memory.from_numpy(np.asarray(host_array(value)))
