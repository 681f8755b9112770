"""State of the worlds: one array a field, readable and writable as a whole or in part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.validation import Array, abbreviated, describe, host_array, limits, list_array, plain_tensor, require_mapping

FINISHED_MARKS = ("terminated", "truncated")
"""Fields that mark finished worlds."""

OWN_KEYS = 2**31
"""Value of the shared key's ``world_id`` that makes each world read its own random key. Ids of worlds are smaller."""


class State:
    """State arrays of all worlds, on the env's device.

    Attributes:
        fields: the arrays by name, physical fields first, leading axis worlds.
        may_be_finished: int32 (1,) on the device, 1 if ``set()`` left finished worlds. In same-step mode kernels read the marks
            of finished worlds only if it is 1.
    """

    def __init__(self, layout: Layout, num_worlds: int, memory: Memory) -> None:
        self._memory = memory
        self.fields: dict[str, Any] = {}
        for field in layout.state:
            start = -1 if field.name == "pool_entry" else 0
            self.fields[field.name] = memory.from_numpy(np.full(layout.state_shape(field, num_worlds), start, field.dtype))
        self._layout = layout
        self._spec = {field.name: field for field in layout.state}
        self._shared_key = memory.from_numpy(np.array([0, OWN_KEYS], np.uint64))
        self.may_be_finished = memory.from_numpy(np.zeros(1, np.int32))

    def addresses(self) -> dict[str, int]:
        """Addresses of the fields, the shared key and ``may_be_finished``, by member of the argument struct."""
        addresses = {name: self._memory.address(array) for name, array in self.fields.items()}
        extra_arrays = {"shared_key": self._shared_key, "may_be_finished": self.may_be_finished}
        return {**addresses, **{name: self._memory.address(array) for name, array in extra_arrays.items()}}

    def get(self, out: Memory, *names: str) -> dict[str, Any]:
        """Copies of the fields named, of all by default, in the array kind of ``out``, physical fields first.

        Raises:
            ParameterError: a name that is no field.
        """
        if out.kind == self._memory.kind:
            return {name: self._memory.copy(self._field(name)) for name in names or self.fields}
        return {name: out.from_numpy(array) for name, array in self.on_host(*names).items()}

    def on_host(self, *names: str) -> dict[str, Any]:
        """Host copies of the fields named, of all by default; waits for the device."""
        return {name: self._memory.to_numpy(self._field(name)) for name in names or self.fields}

    def set(self, values: Mapping[str, Any]) -> None:
        """Overwrite the fields given, and clear ``terminated`` and ``truncated`` unless they are given.

        Raises:
            ParameterError: a name that is no field, or a value outside the field's bounds.
            ShapeError, ArrayTypeError: a value does not fit; the message says what was expected and what came.
            DeviceError: a tensor on the device "meta".

        After an error the state is unchanged.
        """
        checked = {name: self._checked(name, value) for name, value in require_mapping(values, "a state").items()}
        for name, value in checked.items():
            self._memory.assign(self.fields[name], value)
        if "seed" in checked or "world_id" in checked:
            self.unshare_keys()
        terminated, truncated = (self.fields[name] for name in FINISHED_MARKS)
        with self._memory.here():
            for name in FINISHED_MARKS:
                if name not in checked:
                    self.fields[name][...] = 0
            self.may_be_finished[...] = (terminated | truncated).any()

    def set_keys(self, seed: np.ndarray, world_id: np.ndarray, mask: np.ndarray | None) -> None:
        """Give worlds new random keys, with ``episode`` -1, so that the next reset starts episode 0.

        Args:
            seed: uint64 (num_worlds,).
            world_id: int32 (num_worlds,).
            mask: bool (num_worlds,), worlds to change; None for all.
        """
        for name, value in (("seed", seed), ("world_id", world_id), ("episode", np.full(len(seed), -1, np.int32))):
            if mask is not None:
                value = np.where(mask, value, self._memory.to_numpy(self.fields[name]))
            self._memory.assign(self.fields[name], self._memory.from_numpy(value))
        shared = mask is None and (seed == seed[0]).all() and (world_id == world_id[0] + np.arange(len(seed))).all()
        self._share_key(int(seed[0]), int(world_id[0]) if shared else OWN_KEYS)

    def unshare_keys(self) -> None:
        """Make each world read its own random key from now on. Call it when keys may not follow from one seed any more."""
        self._share_key(0, OWN_KEYS)

    def _share_key(self, seed: int, first_world: int) -> None:
        """Store the seed of all worlds and the ``world_id`` of world 0. Kernels add a world's number to this id."""
        self._memory.assign(self._shared_key, self._memory.from_numpy(np.array([seed, first_world], np.uint64)))

    def copies(self) -> list[Array]:
        """Copies of all fields in the order of ``fields``, in the memory of the state."""
        return [self._memory.copy(array) for array in self.fields.values()]

    def _field(self, name: str) -> Array:
        if not isinstance(name, str) or name not in self.fields:
            raise ParameterError(f"the state has no field {abbreviated(name)}; it has {', '.join(self.fields)}.")
        return self.fields[name]

    def _checked(self, name: str, value: Any) -> Array:
        shape = tuple(self._field(name).shape)
        bounds = self._layout.bounds[name]
        return checked_field(f"state field {name}", value, shape, self._spec[name].dtype, bounds, self._memory)


def checked_field(
    where: str, value: Any, shape: tuple[int, ...], dtype: str, bounds: tuple[float, float], memory: Memory
) -> Array:
    """Check the values of a field, an array of any kind or nested lists.

    It waits for the device if a bound is finite.

    Returns:
        The values as a C-contiguous array of ``memory``: the array given if it is one, otherwise a copy.

    Raises:
        ShapeError, ArrayTypeError, DeviceError: the value does not fit; the message says what was expected and what came.
        ParameterError: a value outside ``bounds``.
    """
    if not hasattr(value, "dtype"):
        value = list_array(value, dtype, where)
    form = describe(value)
    if form.kind == "torch":
        value = plain_tensor(value, where)
    if tuple(value.shape) != shape:
        raise ShapeError(f"{where} must have shape {shape}, got {tuple(value.shape)}.")
    if form.dtype != dtype:
        raise ArrayTypeError(f"{where} must be {dtype}, got {value.dtype}.")
    array = memory.adopt(value, where)
    low, high = bounds
    if low == -math.inf and high == math.inf:
        return array
    values: Any = memory.to_numpy(array) if dtype in ("uint16", "uint64") else array  # torch cannot compare these
    with memory.here():
        outside = ~((values >= low) & (values <= high))
        if bool(outside.any()):
            first = np.asarray(host_array(values))[np.asarray(host_array(outside))][0]
            raise ParameterError(f"{where} must be {limits(low, high)}, got {first}.")
    return array
