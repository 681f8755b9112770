"""Argument struct of an env's kernels. It is filled once, and each launch overwrites some members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Any

import numpy as np

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import ShapeError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.struct import output_members
from gpu_vecenv.spec.validation import Array
from gpu_vecenv.vector.inputs.actions import random_ranges
from gpu_vecenv.vector.outputs.outputs import OutputArrays
from gpu_vecenv.vector.outputs.views import View


class Arguments:
    """The argument struct, and the arrays that it points to, except state, reset pool and outputs.

    Args:
        view: number of worlds, and layout of public arrays.
        memory: memory of the kernels' arrays.
        addresses: addresses of the state fields and of the reset pool, by member.
        autoreset: one of ``KERNEL_MODE``.

    Attributes:
        struct: the argument struct, a 0-d structured array.
        invalid: int32 (1,) on the device, number of invalid actions that kernels counted.
        reset_options: float32 on the device, options of the last reset, which also hold for autoresets.
        can_draw: True if the action space has the bounds that random actions need.
        version: number of changes since the env was made that a CUDA graph does not see, because it holds a copy of the struct.
    """

    def __init__(self, view: View, memory: Memory, addresses: Mapping[str, int], autoreset: int) -> None:
        layout, spec = view.layout, view.layout.spec
        self._memory, self._layout = memory, layout
        self.invalid = memory.from_numpy(np.zeros(1, np.int32))
        self._mask = memory.from_numpy(np.zeros(view.num_worlds, np.uint8))
        self._copy_source = memory.from_numpy(np.full(view.num_worlds, -1, np.int32))
        self._copy_fields = memory.from_numpy(np.zeros(len(layout.state), np.uint64))
        self.reset_options = memory.from_numpy(np.zeros(max(1, len(spec.reset_options)), np.float32))
        self._random = {}
        for group in layout.groups:
            for name, values in random_ranges(group).items():
                self._random[f"{group.prefix}{name}"] = memory.from_numpy(values)
        self.can_draw = all(np.isfinite(random_ranges(group)["action_bounds"]).all() for group in layout.groups)
        self._tables = {name: memory.from_numpy(values) for name, values in layout.tables.items()}
        for name, (shape, dtype, fill) in layout.workspaces.items():
            self._tables[name] = memory.from_numpy(np.full((view.num_worlds, *shape), fill, dtype))
        for name, values in layout.by_world.items():
            if values.shape != (view.num_worlds,):
                raise ShapeError(f"{spec.name}: {name} must hold one number a world, ({view.num_worlds},), got {values.shape}.")
            self._tables[f"{name}_by_world"] = memory.from_numpy(values)
        self.version = 0
        words = np.zeros(layout.dtype.itemsize // 8, np.uint64)
        self.struct = words.view(layout.dtype).reshape(())
        self.set(
            **layout.scalars,
            **addresses,
            **{name: memory.address(table) for name, table in self._tables.items()},
            **role_rows(layout, view),
            invalid_actions=memory.address(self.invalid),
            reset_bounds=memory.address(self.reset_options),
            **{name: memory.address(array) for name, array in self._random.items()},
            copy_source=memory.address(self._copy_source),
            copy_fields=memory.address(self._copy_fields),
            num_worlds=view.num_worlds,
            autoreset=autoreset,
            agents_view=view.by_agent and layout.num_agents > 1,
        )
        # Members that change in each step are written as words into the struct's bytes, several times faster than by name. The
        # members that hold addresses of outputs have eight bytes each and follow one another.
        offsets = {name: field[1] for name, field in (layout.dtype.fields or {}).items()}
        self._bytes = words.data.cast("B")
        self._words, self._halves = self._bytes.cast("Q"), self._bytes.cast("i")
        outputs = list(output_members(spec))
        self._pack_outputs, self._outputs = Struct(f"{len(outputs)}Q").pack_into, offsets[outputs[0]]
        self._prefixes = [group.prefix for group in layout.groups]
        actions = [(offsets[f"{prefix}action"] // 8, offsets[f"{prefix}action_type"] // 4) for prefix in self._prefixes]
        self._by_role = actions if layout.by_role else None
        self._action, self._action_type = actions[0]

    def params_by_world(self) -> dict[str, Any]:
        """Return the kernels' own arrays of parameters that were given by world, (num_worlds,), by name."""
        return {name: self._tables[f"{name}_by_world"] for name in self._layout.per_world}

    def set(self, /, **values: float) -> None:
        """Overwrite members."""
        for name, value in values.items():
            self.struct[name] = value

    def set_numbers(self, before: Layout, now: Layout) -> None:
        """Overwrite the parameters, the constants and the tables that differ in two layouts of an env."""
        memory = self._memory
        for name, values in now.by_world.items():
            if not np.array_equal(values, before.by_world[name]):
                memory.assign(self._tables[f"{name}_by_world"], memory.from_numpy(values))
        tables = {name: values for name, values in now.tables.items() if not np.array_equal(values, before.tables[name])}
        scalars = {name: value for name, value in now.scalars.items() if value != before.scalars[name]}
        for name, values in tables.items():
            memory.assign(self._tables[name], memory.from_numpy(values))
        self.set(**scalars)
        self.version += bool(scalars or {*tables} - {*now.tables_by_world})

    def set_outputs(self, results: OutputArrays) -> None:
        """Overwrite the addresses of the outputs."""
        self._pack_outputs(self._bytes, self._outputs, *results.words)

    def set_actions(self, read: Any) -> None:
        """Overwrite the addresses of the actions and the types of their entries.

        Args:
            read: actions as ``ActionReader.read()`` returns them; a list by role if arrays are by role.
        """
        if self._by_role is None:
            _, self._words[self._action], self._halves[self._action_type] = read
            return
        for (word, half), (_, address, entry_type) in zip(self._by_role, read, strict=True):
            self._words[word], self._halves[half] = address, entry_type

    def set_rollout(self, num_steps: int, strides: Sequence[int], drawn: Sequence[int]) -> None:
        """Overwrite the arguments of a rollout.

        Args:
            num_steps: steps.
            strides: for each group, bytes from the actions of one step to those of the next.
            drawn: for each group, address that drawn actions are written to; 0 for given actions.
        """
        self.set(num_steps=num_steps)
        for prefix, stride, address in zip(self._prefixes, strides, drawn, strict=True):
            self.set(**{f"{prefix}action_stride": stride, f"{prefix}drawn_actions": address})

    def set_copy(self, sources: np.ndarray, fields: Iterable[Array], fork: tuple[int, int] | None) -> None:
        """Overwrite the arguments of a copy.

        Args:
            sources: int32 (num_worlds,), the world to copy into each world, -1 for none.
            fields: state arrays to copy from, in the order of the state.
            fork: new seed of the copies and ``world_id`` of world 0; None to keep the random keys of the originals.
        """
        memory = self._memory
        addresses = [memory.address(array) for array in fields]
        memory.assign(self._copy_source, memory.from_numpy(sources))
        memory.assign(self._copy_fields, memory.from_numpy(np.array(addresses, np.uint64)))
        seed, first_world = fork or (0, -1)
        self.set(fork_seed=seed, fork_world=first_world)

    def set_reset(self, mask: np.ndarray | None, options: np.ndarray) -> None:
        """Overwrite the arguments of a reset: its worlds, bool (num_worlds,) or None for all, and the float32 reset options."""
        memory = self._memory
        memory.assign(self.reset_options, memory.from_numpy(options))
        if mask is not None:
            memory.assign(self._mask, memory.from_numpy(mask.astype(np.uint8)))
        self.set(reset_mask=0 if mask is None else memory.address(self._mask))


def role_rows(layout: Layout, view: View) -> dict[str, int]:
    """Return the first row and the stride of each role in public arrays, by member of the argument struct."""
    values = {}
    for role, (row, stride) in zip(layout.role_counts, layout.role_rows(view.num_worlds, view.by_agent), strict=True):
        values[f"{role}_row"], values[f"{role}_stride"] = row, stride
    return values
