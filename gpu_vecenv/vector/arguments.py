"""Argument struct of an env's kernels. It is filled once, and each launch overwrites some members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

import numpy as np

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import ShapeError
from gpu_vecenv.spec.given import Array
from gpu_vecenv.spec.layout import OUTPUTS, Layout
from gpu_vecenv.vector.actions import random_ranges
from gpu_vecenv.vector.outputs import OutputArrays
from gpu_vecenv.vector.views import View


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
        can_draw: True if the action space has the bounds that random actions need.
    """

    def __init__(self, view: View, memory: Memory, addresses: Mapping[str, int], autoreset: int) -> None:
        layout, spec = view.layout, view.layout.spec
        self._memory = memory
        self.invalid = memory.from_numpy(np.zeros(1, np.int32))
        self._mask = memory.from_numpy(np.zeros(view.num_worlds, np.uint8))
        self._copy_source = memory.from_numpy(np.full(view.num_worlds, -1, np.int32))
        self._copy_fields = memory.from_numpy(np.zeros(len(layout.state), np.uint64))
        self._bounds = memory.from_numpy(np.zeros(max(1, len(spec.reset_options)), np.float32))
        choices, bounds = random_ranges(view.agent_action_space)
        self.can_draw = bool(np.isfinite(bounds).all())
        self._choices, self._action_bounds = memory.from_numpy(choices), memory.from_numpy(bounds)
        self._tables = {name: memory.from_numpy(values) for name, values in layout.tables.items()}
        for name, (shape, dtype, fill) in layout.workspaces.items():
            self._tables[name] = memory.from_numpy(np.full((view.num_worlds, *shape), fill, dtype))
        for name, values in layout.per_world.items():
            if values.shape != (view.num_worlds,):
                raise ShapeError(f"{spec.name}: {name} must hold one number a world, ({view.num_worlds},), got {values.shape}.")
            self._tables[f"{name}_by_world"] = memory.from_numpy(values)
        words = np.zeros(layout.dtype.itemsize // 8, np.uint64)
        self.struct = words.view(layout.dtype).reshape(())
        self.set(
            **layout.scalars,
            **addresses,
            **{name: memory.address(table) for name, table in self._tables.items()},
            **_role_rows(layout, view),
            invalid_actions=memory.address(self.invalid),
            reset_bounds=memory.address(self._bounds),
            action_choices=memory.address(self._choices),
            action_bounds=memory.address(self._action_bounds),
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
        self._pack_outputs, self._outputs = Struct(f"{len(OUTPUTS)}Q").pack_into, offsets[next(iter(OUTPUTS))]
        self._action, self._action_bytes = offsets["action"] // 8, offsets["action_bytes"] // 4

    def set(self, **values: float) -> None:
        """Overwrite members."""
        for name, value in values.items():
            self.struct[name] = value

    def set_outputs(self, results: OutputArrays) -> None:
        """Overwrite the addresses of the outputs."""
        self._pack_outputs(self._bytes, self._outputs, *results.words)

    def set_action(self, address: int, element_bytes: int) -> None:
        """Overwrite the address of the actions and the size of one element."""
        self._words[self._action] = address
        self._halves[self._action_bytes] = element_bytes

    def set_rollout(self, num_steps: int, action_stride: int, drawn: int) -> None:
        """Overwrite the arguments of a rollout.

        Args:
            num_steps: steps.
            action_stride: bytes from the actions of one step to those of the next.
            drawn: address that drawn actions are written to; 0 for given actions.
        """
        self.set(num_steps=num_steps, action_stride=action_stride, drawn_actions=drawn)

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
        memory.assign(self._bounds, memory.from_numpy(options))
        if mask is not None:
            memory.assign(self._mask, memory.from_numpy(mask.astype(np.uint8)))
        self.set(reset_mask=0 if mask is None else memory.address(self._mask))


def _role_rows(layout: Layout, view: View) -> dict[str, int]:
    values = {}
    for role, (row, stride) in zip(layout.role_counts, layout.role_rows(view.num_worlds, view.by_agent), strict=True):
        values[f"{role}_row"], values[f"{role}_stride"] = row, stride
    return values
