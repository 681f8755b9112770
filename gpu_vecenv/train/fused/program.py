"""Kernels of an update for given sizes of networks: constants, memory of a block, columns of the sums."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gpu_vecenv.backend.source import KERNEL_FOLDER, Program
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.train.fused.arguments import ActArgs, UpdateArgs, rollout_args

ACTIVATIONS = ("tanh", "relu", "elu")
"""In the order of their numbers in ``kernels/learner/network.h``."""

REDUCED, ADAM_COLUMNS = 32, 256
"""Columns of the sums for a team of ``gv_reduce`` and of ``gv_adam``."""

TERMS = 5
"""Columns of the actor behind its weights: sums of terms, and the number of rows. The critic has one."""

GROUP_ROWS = 16
"""Rows of a group of 32 lanes in a tile, ``GV_OWN`` of ``kernels/learner/rows.h`` on CUDA."""

MULTIPROCESSOR_BYTES, BLOCK_BYTES = 228 * 1024, 1024
"""Shared memory of a multiprocessor of Hopper, and what each block takes beside its own."""


def _up_to(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _stride(columns: int) -> int:
    """Return the numbers between two rows of a tile, ``gv_stride`` of ``kernels/learner/tile.h``."""
    return (_up_to(columns, 8) // 8 | 1) * 8


class Memory(NamedTuple):
    """Memory of a block."""

    halves: int
    """Numbers of 16 bits."""
    floats: int
    """Floats behind them."""
    resident: int
    """Blocks that a multiprocessor has memory for, up to 512 lanes of them."""

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory."""
        return 2 * self.halves + 4 * self.floats


@dataclass(frozen=True)
class Sizes:
    """Sizes of an actor and a critic with equal hidden layers, and of the tiles that blocks work on."""

    features: int
    hidden: tuple[int, ...]
    activation: str
    outputs: int
    """Outputs of the actor."""
    choices: tuple[int, ...] | None
    """Number of choices of each entry; None if the outputs are means."""
    mask_first: tuple[int, ...] = ()
    """First column of each entry's mask, -1 without one."""
    rows: int = 128
    """Rows of a tile."""

    @property
    def lanes(self) -> int:
        """Lanes of a block."""
        return 32 * self.rows // GROUP_ROWS

    @property
    def entries(self) -> int:
        """Entries of an action."""
        return self.outputs if self.choices is None else len(self.choices)

    @property
    def network_halves(self) -> int:
        """Numbers of 16 bits of a network in the memory of a block: its weights."""
        widths = [_up_to(size, 16) for size in self.hidden]
        first = widths[0] * _stride(_up_to(2 * self.features, 16) + _up_to(self.features, 16))
        hidden = sum(width * _stride(below) for below, width in pairwise(widths))
        return first + hidden + (_up_to(self.outputs, 16) + _up_to(self.outputs, 8)) * _stride(widths[-1])

    @property
    def network_floats(self) -> int:
        """Floats of a network in the memory of a block: biases and normalisation."""
        return sum(_up_to(size, 16) for size in self.hidden) + _up_to(self.outputs, 8) + 3 * self.features

    @property
    def update_memory(self) -> Memory:
        """Memory of a block of an update: the network, tiles of features, units and derivatives, and outputs of a tile."""
        units = sum(2 * _stride(_up_to(size, 16)) for size in self.hidden)
        tiles = _stride(_up_to(2 * self.features, 16)) + units + _stride(_up_to(self.outputs, 16))
        floats = _up_to(self.network_floats + self.rows * (self.outputs | 1), 4) + self.rows * self._staged_floats
        return self._memory(tiles, floats)

    @property
    def _staged_floats(self) -> int:
        """Floats of a row that are copied ahead, ``GV_STAGED_FLOATS`` of ``kernels/learner/ahead.h``."""
        return 4 + (self.entries if self.entries <= 4 else 1) + (self.features if self.features <= 32 else 0)

    @property
    def act_memory(self) -> Memory:
        """Memory of a block that acts: the network, a tile of features, and outputs. It is less than an update needs."""
        return self._memory(_stride(_up_to(2 * self.features, 16)), self.network_floats + self.rows * (self.outputs | 1))

    def _memory(self, halves: int, floats: int) -> Memory:
        """Return the memory of a block with a network, some numbers of 16 bits a row, and floats in all."""
        halves = self.network_halves + self.rows * halves
        static = 256
        room = MULTIPROCESSOR_BYTES // (2 * halves + 4 * floats + static + BLOCK_BYTES)
        return Memory(halves, floats, max(1, min(512 // self.lanes, room)))

    def weights(self, outputs: int) -> list[int]:
        """Return the sizes of the parameters of a network: weight and bias of each layer in turn."""
        layers = pairwise((self.features, *self.hidden, outputs))
        return [size for below, units in layers for size in (below * units, units)]

    @property
    def actor_columns(self) -> int:
        """Columns of the sums of the actor."""
        return sum(self.weights(self.outputs)) + (self.entries if self.choices is None else 0) + TERMS

    @property
    def critic_columns(self) -> int:
        """Columns of the sums of the critic."""
        return sum(self.weights(1)) + 1


@functools.cache
def update_program(sizes: Sizes) -> Program:
    """Return the kernels of an update for some sizes."""
    args = ctypes.sizeof(UpdateArgs)
    return _program("updates", KERNEL_FOLDER / "learner" / "gradient.cu", sizes, sizes.update_memory, args)


@functools.cache
def act_program(sizes: Sizes) -> Program:
    """Return the kernels that act and compute values for some sizes."""
    return _program("actions", KERNEL_FOLDER / "learner" / "act.cu", sizes, sizes.act_memory, ctypes.sizeof(ActArgs))


def rollout_program(sizes: Sizes, layout: Layout) -> Program:
    """Return the kernel that acts and steps the worlds of an env for some sizes.

    Args:
        sizes: sizes of the policy; its rows are worlds of a tile.
        layout: sizes of the env.
    """
    args_size = ctypes.sizeof(rollout_args(layout))
    program = _program("rollouts", KERNEL_FOLDER / "learner" / "rollout.cu", sizes, sizes.act_memory, args_size)
    constants = {name: value for name, value in program.constants if name != "MASKED"}  # a macro of the env's headers
    constants |= {"BY_WORLD": int(bool(layout.per_world)), **layout.sizes}
    name = f"rollouts of {layout.spec.name}"
    return replace(program, name=name, constants=tuple(constants.items()), resident=2, env=layout.spec)


def _program(name: str, kernel: Path, sizes: Sizes, memory: Memory, args_size: int) -> Program:
    hidden = {f"HIDDEN_{number}": (*sizes.hidden, 0, 0)[number - 1] for number in (1, 2, 3)}
    constants: dict[str, int | str] = {
        "FEATURES": sizes.features, "LAYERS": len(sizes.hidden), **hidden, "ACTIVATION": ACTIVATIONS.index(sizes.activation),
        "OUTPUTS": sizes.outputs, "ENTRIES": sizes.entries, "ROWS": sizes.rows, "ADAM_COLUMNS": ADAM_COLUMNS,
        "PLANNED_HALVES": memory.halves, "PLANNED_FLOATS": memory.floats, "ARGS_SIZE": args_size,
    }  # fmt: skip
    if sizes.choices is not None:
        mask_first = sizes.mask_first or (-1,) * sizes.entries
        constants["MASKED"] = int(max(mask_first) >= 0)
        for name_of, values in (("CHOICES", sizes.choices), ("MASK_FIRST", mask_first)):
            constants[name_of] = f"{{{', '.join(map(str, values))}}}"
    return Program(name, kernel, tuple(constants.items()), sizes.lanes, scratch=None, resident=memory.resident)
