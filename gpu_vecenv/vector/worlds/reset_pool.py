"""Reset pools: recorded states; each reset draws one and starts from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.struct import WORLD_STATE
from gpu_vecenv.spec.validation import Array, host_array, require_mapping
from gpu_vecenv.vector.worlds.state import checked_field

_WORLD_STATE = [field.name for field in WORLD_STATE]


class ResetPool:
    """Reset pool of one env on its device. It may change between launches, also between replays of a captured graph.

    Attributes:
        size: int32 (1,) on the device, number of entries; 0 or -1 without a pool.
        arrays: fields of the entries by name; empty without a pool. A change of the pool replaces the dict.
    """

    def __init__(self, layout: Layout, memory: Memory) -> None:
        self._layout = layout
        self._memory = memory
        self.size = memory.from_numpy(np.zeros(1, np.int32))
        self._fields = memory.from_numpy(np.zeros(len(layout.state), np.uint64))
        self.arrays: dict[str, Array] = {}

    def addresses(self) -> dict[str, int]:
        """Addresses by member of the argument struct."""
        return {"pool_size": self._memory.address(self.size), "pool_fields": self._memory.address(self._fields)}

    def set(self, states: Mapping[str, Any] | None) -> None:
        """Make resets draw their start from these states from now on; None for the env's own starts.

        Raises:
            ParameterError: an unknown name, no physical field, no entries, or a value outside the field's bounds.
            ShapeError, ArrayTypeError: a field that does not fit.
            DeviceError: a tensor on the device "meta".

        After an error the pool is unchanged.
        """
        arrays = {} if states is None else self._checked(require_mapping(states, "a reset pool"))
        addresses = [self._memory.address(arrays[f.name]) if f.name in arrays else 0 for f in self._layout.state]
        self._memory.assign(self._fields, self._memory.from_numpy(np.array(addresses, np.uint64)))
        self._set_size(len(next(iter(arrays.values()))) if arrays else -1)
        self.arrays = arrays  # kept alive, because kernels have their addresses

    def get(self, out: Memory | None) -> dict[str, Any]:
        """Return copies of the pool's fields in the array kind of ``out``, on the host for None; empty without a pool."""
        if out is not None and out.kind == self._memory.kind:
            return {name: self._memory.copy(array) for name, array in self.arrays.items()}
        host: dict[str, Any] = {name: self._memory.to_numpy(array) for name, array in self.arrays.items()}
        return host if out is None else {name: out.from_numpy(array) for name, array in host.items()}

    def forget_entries(self) -> None:
        """Without a pool, make resets write -1 to ``pool_entry``, because a state that was set may hold entries of a pool."""
        if not self.arrays:
            self._set_size(-1)

    def _set_size(self, size: int) -> None:
        self._memory.assign(self.size, self._memory.from_numpy(np.array([size], np.int32)))

    def _checked(self, states: Mapping[str, Any]) -> dict[str, Array]:
        fields = {field.name: field for field in self._layout.spec.state}
        unknown = [name for name in states if name not in fields and name not in _WORLD_STATE]
        given_fields = [name for name in fields if name in states]
        if unknown or not given_fields:
            raise ParameterError(f"a reset pool holds fields of {', '.join(fields)}; got {', '.join(states) or 'nothing'}.")
        try:
            size = len(states[given_fields[0]])
        except (TypeError, RuntimeError):  # a number, an array without axes, a nested tensor
            size = 0
        if not 1 <= size < 2**31:
            raise ParameterError(f"a reset pool holds 1 to 2**31 - 1 start states, got {size}.")
        return {
            name: self._memory.copy(
                checked_field(f"reset pool {name}", states[name], self._layout.state_shape(fields[name], size),
                              fields[name].dtype, self._layout.bounds[name], self._memory)
            )
            for name in given_fields
        }  # fmt: skip


def join_states(states: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Concatenate recorded states, without the states of finished worlds.

    Args:
        states: results of ``get_state()`` at different times, of envs whose fields have the same shapes.

    Returns:
        The same fields on the host for ``set_reset_pool``; the leading axis is the worlds of all states.

    Raises:
        ParameterError: no states, states with different fields, or states without ``terminated`` and ``truncated``.
        ShapeError: fields of different shapes.
        ArrayTypeError: not a sequence of mappings.
    """
    if not isinstance(states, Sequence):
        raise ArrayTypeError(f"join_states() needs a list of states, got {type(states).__name__}.")
    if not states:
        raise ParameterError("join_states() needs at least one state, got none.")
    for state in states:
        names = list(require_mapping(state, "a recorded state"))
        if names != list(states[0]) or not {"terminated", "truncated"} <= set(names):
            raise ParameterError(
                "join_states() needs states with the same fields, terminated and truncated among them, as get_state() returns "
                f"them; got {', '.join(names) or 'nothing'}."
            )
    try:
        host = [{name: np.asarray(host_array(values, name)) for name, values in state.items()} for state in states]
        unfinished = [(state["terminated"] == 0) & (state["truncated"] == 0) for state in host]
        return {name: np.concatenate([s[name][keep] for s, keep in zip(host, unfinished, strict=True)]) for name in host[0]}
    except (IndexError, ValueError) as error:
        raise ShapeError(f"join_states() needs one number of worlds a state and one shape a field: {error}.") from error
