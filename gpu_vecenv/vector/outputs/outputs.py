"""Arrays that a reset, a step or a rollout writes: fresh ones, persistent ones, or slabs that the caller bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import OutOfMemoryError, ParameterError, SequenceError, UnknownParameterError
from gpu_vecenv.spec.struct import output_members
from gpu_vecenv.spec.validation import Array
from gpu_vecenv.vector.outputs.results import Results, dtype_of, previous_member
from gpu_vecenv.vector.outputs.slabs import require_dense, require_slab
from gpu_vecenv.vector.outputs.tree import flatten, nest
from gpu_vecenv.vector.outputs.views import View

CHECK_ROOM_FROM = 2**30
"""Rollouts whose new arrays have at least this many bytes check free memory first. The query takes ten microseconds."""

@dataclass(slots=True, eq=False)
class OutputArrays:
    """Arrays that one reset, step or rollout writes.

    Attributes:
        arrays: the arrays in the order of ``Outputs.shapes``.
        previous: the last observations and masks, which kernels read. This reference keeps them alive if the caller drops them.
        actions: for each group, array for the drawn actions of a rollout that stores them; otherwise empty.
        addresses: addresses of ``previous`` and of the arrays.
        words: addresses in the order of ``output_members()``, 0 for an output that this env does not have.
    """

    arrays: Sequence[Any]
    previous: Sequence[Any]
    actions: Sequence[Any]
    addresses: tuple[int, ...]
    words: tuple[int, ...]


class Outputs:
    """Gives each reset, step and rollout the arrays to write.

    Args:
        view: shapes.
        memory: allocator of public arrays.
        same_step: True in same-step mode, in which final observations are written.
        copy: True for fresh arrays in every call, False for one persistent set.

    Attributes:
        copy: the argument of this name.
        fresh: True if every call allocates its results: ``copy`` is True and no slabs are bound.
        results: names and shapes of the arrays.
        allocate: returns a fresh set of arrays for a step.
    """

    def __init__(self, view: View, memory: Memory, same_step: bool, copy: bool) -> None:
        self._memory = memory
        self.copy = self.fresh = copy
        self.results = results = Results(view, same_step)
        self.allocate = memory.allocator([(shape, dtype_of(name)) for name, shape in results.shapes.items()])
        # _kept_of(arrays) returns those arrays of a step or a rollout that the next call reads.
        self._carried_indices = [results.indices[name] for name in results.carried]
        self._carried_of = itemgetter(*self._carried_indices) if len(self._carried_indices) > 1 else itemgetter(slice(0, 1))
        # _pick_words(0, *addresses of previous arrays, *addresses of arrays) returns one address for each of output_members();
        # 0 is null.
        words = {previous_member(name): index + 1 for index, name in enumerate(results.carried)}
        words |= {name: index + 1 + len(results.carried) for name, index in results.indices.items()}
        self._pick_words = itemgetter(*(words.get(name.removeprefix("out_"), 0) for name in output_members(view.layout.spec)))
        self._persistent: OutputArrays | None = None
        self._rollout_arrays: dict[tuple[str, int], Array] = {}
        self._last: Sequence[Array] | None = None
        self._step_actions: Sequence[Array] = ()
        self._slabs: dict[str, Array] = {}
        self._slots: list[OutputArrays] = []
        self._slot = 0

    def new_carried(self) -> Sequence[Array]:
        """Arrays like those that the next call reads, for observations of the present state."""
        return [self._memory.empty(self.results.shapes[name], dtype_of(name)) for name in self.results.carried]

    def new_last_obs(self) -> Sequence[Array]:
        """Arrays for the observation of a state that was set or copied; it becomes the last observation.

        With ``copy=True`` the arrays are new, so that arrays handed out are not overwritten.
        """
        if self._slabs:
            return self._carried_at(self._slot)
        if self.copy:
            self._last = self.new_carried()
            return self._last
        last_arrays: Sequence[Array] = self._carried_of(self._persistent_arrays())
        return last_arrays

    def for_reset(self, partial: bool) -> OutputArrays:
        """Arrays for a reset. If ``partial``, kernels keep the last observation of worlds that are not reset."""
        if self._slabs:
            self._slot = self._slot if partial else 0
            last_arrays = self._carried_at(self._slot)
            arrays = list(self._persistent_arrays())
            for index, array in zip(self._carried_indices, last_arrays, strict=True):
                arrays[index] = array
            return self._with_addresses(arrays, last_arrays)
        return self._new_arrays() if self.fresh else self._with_present_addresses(self._persist())

    def for_step(self) -> OutputArrays:
        """Arrays for the next step.

        Raises:
            SequenceError: the bound slabs are full.
        """
        if self.fresh:
            return self._new_arrays()
        if not self._slabs:
            return self._with_present_addresses(self._persist())
        if self._slot >= len(self._slots):
            raise SequenceError(
                f"the bound slabs hold {len(self._slots)} steps and are full; call rewind() before the next step."
            )
        arrays = self._slots[self._slot]
        self._slot += 1
        return self._with_present_addresses(arrays)

    def for_rollout(self, steps: int, keep_actions: bool) -> OutputArrays:
        """Arrays for a rollout of ``steps`` steps, their leading axis; with ``keep_actions`` also an array for drawn actions.

        Raises:
            SequenceError: the bound slabs have fewer slots left than steps.
            OutOfMemoryError: the new arrays do not fit into free memory.
        """
        names = [*self.results.shapes, *self.results.actions] if keep_actions else [*self.results.shapes]
        new = [name for name in names if name not in self._slabs and (name, steps) not in self._rollout_arrays]
        self._require_room(new, steps)
        make = self._empty if self.fresh else self._persist_rollout
        if self._slabs:
            first = self._slot
            if first + steps > len(self._slots):
                left = f"{len(self._slots) - first} of {len(self._slots)} steps"
                raise SequenceError(f"the bound slabs have room for {left} and the rollout has {steps}; call rewind() before it.")
            self._slot += steps
            bound = {name: slab[first + (name in self.results.carried) :][:steps] for name, slab in self._slabs.items()}
            arrays = [bound[name] if name in bound else make(name, steps) for name in self.results.shapes]
            previous = self._carried_at(first)
        else:
            arrays = [make(name, steps) for name in self.results.shapes]
            if self.copy:
                last, self._last = self._last, [array[-1] for array in self._carried_of(arrays)]
                previous = [array[0] for array in self._carried_of(arrays)] if last is None else last
            else:
                previous = self._carried_of(self._persistent_arrays())
        actions = [make(name, steps) for name in self.results.actions] if keep_actions else ()
        return self._with_addresses(arrays, previous, actions)

    def actions_of_a_step(self) -> Sequence[Array]:
        """For each group, array for drawn actions that a rollout does not store. Each step overwrites it; no caller gets it."""
        if not self._step_actions:
            self._step_actions = [self._empty(name, 1) for name in self.results.actions]
        return self._step_actions

    def end_rollout(self, results: OutputArrays) -> None:
        """After a rollout into persistent arrays, copy its last observation to that of a step, which later calls read."""
        if self.fresh:
            return
        for name, persistent, array in zip(
            self.results.carried, self._carried_of(self._persistent_arrays()), self._carried_of(results.arrays), strict=True
        ):
            if name not in self._slabs:
                self._memory.assign(persistent, array[-1])

    # ---- slabs ------------------------------------------------------------------------------------------------

    def bind(self, slabs: Mapping[str, Array], device: str) -> None:
        """Write into the caller's slabs from now on, starting at slot 0 with the last observation.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: a slab does not fit; the message says what was expected and what came.
            UnknownParameterError: no ``obs``, or a slab for an output that the env does not have.
            ParameterError: slabs share memory, or one is read-only.
        """
        flat = self._flat_slabs(slabs)
        self._check_slabs(flat, device)
        last = self.last_carried()
        self._persist()
        self._slabs, self.fresh, self._slot = flat, False, 0
        if last is not None:
            self._copy_carried(last, self._carried_at(0))
        persistent = dict(zip(self.results.shapes, self._persistent_arrays(), strict=True))
        self._slots = []
        for t in range(len(flat[self.results.carried[0]]) - 1):
            arrays = persistent | {name: slab[t + (name in self.results.carried)] for name, slab in flat.items()}
            self._slots.append(self._with_addresses(list(arrays.values()), self._carried_at(t)))

    @property
    def bound_obs(self) -> Array | None:
        """The slab of observations that is bound, of the first role if arrays are by role; None without slabs."""
        return self._slabs.get(self.results.carried[0])

    def new_slabs(self, steps: int) -> dict[str, Any]:
        """New slabs for every output, for ``bind()``."""
        slabs = [self._empty(name, steps + (name in self.results.carried)) for name in self.results.shapes]
        return {name: nest(tree, slabs) for name, tree in self.results.public.items()}

    def new_actions(self, steps: int) -> Any:
        """New arrays for the actions of all agents in ``steps`` steps, of ``Group.action_dtype``; by role in a dict."""
        return nest(self.results.actions_by_role, [self._empty(name, steps) for name in self.results.actions])

    @property
    def slot(self) -> int:
        """The next slot to write; the last observation is in this slot of its slab."""
        return self._slot

    def move_to(self, slot: int) -> None:
        """Make ``slot`` the next slot to write. A replay of a graph fills slots without calls of ``for_step()``."""
        self._slot = slot

    def rewind(self) -> None:
        """Copy the last observation to slot 0 and continue from there.

        Raises:
            SequenceError: no slabs are bound.
        """
        if not self._slabs:
            raise SequenceError("rewind() needs bound slabs; call bind() first.")
        if self._slot:
            self._copy_carried(self._carried_at(self._slot), self._carried_at(0))
        self._slot = 0

    def unbind(self) -> None:
        """Write into the env's own arrays again, and leave the slabs to the caller."""
        if self._slabs:
            last = self._carried_at(self._slot)
            if self.copy:
                self._last = [self._memory.copy(array) for array in last]
            else:
                self._copy_carried(last, self._carried_of(self._persistent_arrays()))
        self._slabs, self._slots, self._slot, self.fresh = {}, [], 0, self.copy

    def _flat_slabs(self, slabs: Mapping[str, Any]) -> dict[str, Array]:
        """Slabs by name of the array, from those of a caller by public name and role."""
        names = list(self.results.public)
        if "obs" not in slabs or any(name not in names for name in slabs):
            array_names = ", ".join(name for name in names if name != "obs")
            raise UnknownParameterError(f"bind() needs obs and may take {array_names}; got {', '.join(slabs) or 'nothing'}.")
        by_index = tuple(self.results.shapes)
        return {
            by_index[index]: slab
            for name, slab_tree in slabs.items()
            for index, slab in flatten(f"bound {name}", self.results.public[name], slab_tree)
        }

    def _check_slabs(self, slabs: Mapping[str, Array], device: str) -> None:
        kind = self._memory.kind
        for name, slab in slabs.items():
            require_dense(name, slab, kind, device)
        shape: tuple[int, ...] = tuple(getattr(slabs[self.results.carried[0]], "shape"))  # noqa: B009  (CuPy's type is unknown)
        steps = shape[0] - 1 if shape else 0
        for name, slab in slabs.items():
            require_slab(name, slab, kind, dtype_of(name), steps, self.results.shapes[name], int(name in self.results.carried))
        spans = sorted((self._memory.address(slab), slab.nbytes, name) for name, slab in slabs.items())
        for (first, length, name), (second, _, other) in pairwise(spans):
            if first + length > second:
                raise ParameterError(f"bound {name} and {other} share memory; each slab needs memory of its own.")

    # ---- private ----------------------------------------------------------------------------------------------

    def _carried_at(self, slot: int) -> Sequence[Array]:
        """Arrays that a step in this slot reads: those of bound slabs, and persistent ones for outputs without a slab."""
        persistent = self._carried_of(self._persistent_arrays())
        slabs, names = self._slabs, self.results.carried
        return [slabs[name][slot] if name in slabs else array for name, array in zip(names, persistent, strict=True)]

    def _copy_carried(self, source: Sequence[Array], target: Sequence[Array]) -> None:
        for array, other in zip(source, target, strict=True):
            if array is not other:
                self._memory.assign(other, array)

    def last_carried(self) -> Sequence[Array] | None:
        """The last observations and masks, in the order of ``results.carried``; None if no array was made for them yet."""
        if self._slabs:
            return self._carried_at(self._slot)
        if self.copy:
            return self._last
        return None if self._persistent is None else self._carried_of(self._persistent.arrays)

    def _require_room(self, names: list[str], steps: int) -> None:
        """Raise OutOfMemoryError if new arrays of a long rollout do not fit into memory. Short rollouts are not checked."""
        needed = sum(steps * math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in map(self._shape_and_dtype, names))
        free = self._memory.free_bytes() if needed >= CHECK_ROOM_FROM else None
        if free is not None and needed > free:
            raise OutOfMemoryError(
                f"a rollout of {steps:,} steps needs {needed / 1e6:,.1f} MB for its results, and {free / 1e6:,.1f} MB are free; "
                "take fewer steps at a time."
            )

    def _shape_and_dtype(self, name: str) -> tuple[tuple[int, ...], str]:
        """Shape and dtype of an array of one step."""
        return self.results.actions[name] if name in self.results.actions else (self.results.shapes[name], dtype_of(name))

    def _empty(self, name: str, steps: int) -> Array:
        shape, dtype = self._shape_and_dtype(name)
        return self._memory.empty((steps, *shape), dtype)

    def _persist_rollout(self, name: str, steps: int) -> Array:
        """The persistent array for rollouts of this length."""
        if (name, steps) not in self._rollout_arrays:
            self._rollout_arrays[name, steps] = self._empty(name, steps)
        return self._rollout_arrays[name, steps]

    def _new_arrays(self) -> OutputArrays:
        arrays = self.allocate()
        carried = self._carried_of(arrays)
        last, self._last = self._last, carried
        return self._with_addresses(arrays, carried if last is None else last)

    def _persist(self) -> OutputArrays:
        """The persistent arrays of a step."""
        if self._persistent is None:
            arrays = self.allocate()
            self._persistent = self._with_addresses(arrays, self._carried_of(arrays))
        return self._persistent

    def _persistent_arrays(self) -> Sequence[Array]:
        """The persistent arrays of a step. With bound slabs, they take the outputs that are not bound."""
        return self._persist().arrays

    def _with_addresses(
        self, arrays: Sequence[Array], previous: Sequence[Array], actions: Sequence[Array] = ()
    ) -> OutputArrays:
        addresses = tuple(map(self._memory.address, (*previous, *arrays)))
        return OutputArrays(arrays, previous, actions, addresses, self._pick_words((0, *addresses)))

    def _with_present_addresses(self, results: OutputArrays) -> OutputArrays:
        """Look up the addresses of reused arrays again: torch's ``share_memory_()`` moves the memory of a tensor on the CPU."""
        if self._memory.moves and tuple(map(self._memory.address, (*results.previous, *results.arrays))) != results.addresses:
            fresh = self._with_addresses(results.arrays, results.previous)
            results.addresses, results.words = fresh.addresses, fresh.words
        return results
