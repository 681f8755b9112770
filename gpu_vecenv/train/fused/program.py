"""Kernels of an update for given sizes of networks: constants, memory of a block, columns of the sums."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gpu_vecenv.backend.source import KERNEL_FOLDER, Program
from gpu_vecenv.spec.arguments import Struct
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.train.fused.arguments import ACT_ARGS, UPDATE_ARGS, rollout_args

ACTIVATIONS = ("tanh", "relu", "elu")
"""In the order of their numbers in ``kernels/learner/network.h``."""

REDUCED, ADAM_COLUMNS = 32, 256
"""Columns of the sums for a team of ``gv_reduce`` and of ``gv_adam``."""

TERMS = 5
"""Columns of the actor behind its weights: sums of terms, and the number of rows with a choice. The critic has one,
and the number of rows if those of the actor may be fewer."""

GROUP_ROWS = 16
"""Rows of a group of 32 lanes in a tile, ``GV_OWN`` of ``kernels/learner/rows.h`` on CUDA."""

STAGES, STAGE_ROWS, MOST_SUMS = 4, 64, 32768
"""``GV_STAGES``, ``GV_STAGE_ROWS`` and ``GV_MOST_SUMS`` of ``kernels/learner/split_gradient.cu``."""

SETTINGS = 7
"""Floats of the settings of a loss, ``GvSettings`` of ``kernels/learner/loss.h``."""

LARGEST_HALF = 65_504.0
"""Largest number of 16 bits, ``GV_LARGEST_HALF`` of ``kernels/target/tile_types.h``."""

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


class Part(NamedTuple):
    """Part of the gradient of a layer, which a block sums."""

    units: int
    """Units of the layer."""
    below: int
    """Columns of the layer below."""


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
    split: bool = False
    """The memory of a block holds the first layer or the layers above it, not both."""
    alone: bool = False
    """Blocks are so few that each has a multiprocessor of its own, with all its registers."""
    workers: int = 0
    """Groups that share the columns of a tile in a rollout, beside one that steps the worlds; 0: each group has its own rows."""

    @property
    def lanes(self) -> int:
        """Lanes of a block."""
        return 32 * (self.workers + 1 if self.workers else self.rows // GROUP_ROWS)

    @property
    def entries(self) -> int:
        """Entries of an action."""
        return self.outputs if self.choices is None else len(self.choices)

    @property
    def may_lack_choice(self) -> bool:
        """True if masks can leave a row without a choice, as in ``train/returns/choices.py``."""
        free = [size for size, first in zip(self.choices or (), self.mask_first, strict=False) if first < 0]
        return max(self.mask_first, default=-1) >= 0 and max(free, default=0) < 2

    @property
    def widths(self) -> list[int]:
        """Columns of the hidden layers in memory."""
        return [_up_to(size, 16) for size in self.hidden]

    @property
    def first_halves(self) -> int:
        """Numbers of 16 bits of the first layer in the memory of a block: its weights."""
        return self.widths[0] * _stride(_up_to(2 * self.features, 16) + _up_to(self.features, 16))

    @property
    def network_halves(self) -> int:
        """Numbers of 16 bits of a network in the memory of a block: its weights, but for the first layer if it is split."""
        hidden = sum(width * _stride(below) for below, width in pairwise(self.widths))
        last = (_up_to(self.outputs, 16) + _up_to(self.outputs, 8)) * _stride(self.widths[-1])
        return hidden + last + (0 if self.split else self.first_halves)

    @property
    def network_floats(self) -> int:
        """Floats of a network in the memory of a block: biases and normalisation."""
        return sum(self.widths) + _up_to(self.outputs, 8) + 3 * self.features

    @property
    def update_memory(self) -> Memory:
        """Memory of a block of an update: the network, tiles of features, units and derivatives, outputs of a tile, settings."""
        floats = _up_to(self.network_floats + self.rows * (self.outputs | 1), 4) + self.rows * self._staged_floats + SETTINGS
        features, deltas = (_stride(_up_to(columns, 16)) for columns in (2 * self.features, self.outputs))
        if self.split:
            stages = STAGES * STAGE_ROWS * max(part.units + part.below for part in self.parts(self.outputs))
            first, upper = self.first_halves + self.rows * features, self.network_halves + self.rows * deltas
            return self._memory(max(first, upper, stages), floats)
        units = sum(2 * _stride(width) for width in self.widths)
        return self._memory(self.network_halves + self.rows * (features + units + deltas), floats)

    @property
    def _staged_floats(self) -> int:
        """Floats of a row that are copied ahead, ``GV_STAGED_FLOATS`` of ``kernels/learner/ahead.h``."""
        features = self.features if self.features <= 32 and not self.split else 0
        return 4 + (self.entries if self.entries <= 4 else 1) + features

    @property
    def act_memory(self) -> Memory:
        """Memory of a block that acts: the network, a tile of features, and outputs. It is less than an update needs."""
        features, outputs = self.rows * _stride(_up_to(2 * self.features, 16)), self.rows * (self.outputs | 1)
        halves = max(self.first_halves + features, self.network_halves) if self.split else self.network_halves + features
        return self._memory(halves, self.network_floats + outputs)

    @property
    def rollout_memory(self) -> Memory:
        """Memory of a block of a rollout: that of one that acts, and units and shares of outputs of a crew."""
        acting = self.act_memory
        if not self.workers:
            return acting
        units = self.rows * sum(map(_stride, self.widths[:-1]))
        chunk = 32 if len(self.hidden) == 1 and self.widths[0] % 32 == 0 else 16
        shares = self.widths[-1] // chunk * self.rows * (self.outputs | 1)
        return self._memory(acting.halves + units, acting.floats + shares)

    def _memory(self, halves: int, floats: int) -> Memory:
        """Return the memory of a block with some numbers of 16 bits, and floats."""
        static = 256
        room = MULTIPROCESSOR_BYTES // (2 * halves + 4 * floats + static + BLOCK_BYTES)
        return Memory(halves, floats, 1 if self.alone else max(1, min(512 // self.lanes, room)))

    @property
    def array_columns(self) -> int:
        """Columns of a network's arrays between kernels, ``GV_ARRAY_COLUMNS`` of ``kernels/learner/split_gradient.cu``."""
        return 2 * sum(self.widths) + _up_to(self.outputs, 16)

    @property
    def stash_columns(self) -> int:
        """Columns of all arrays between kernels: features, and the arrays of the actor and of the critic."""
        return _up_to(self.features, 16) + 2 * self.array_columns

    def parts(self, outputs: int) -> list[Part]:
        """Return the parts of the gradient of a split network, from the first layer on."""
        widths, found = (_up_to(self.features, 16), *self.widths, _up_to(outputs, 16)), []
        for below, units in pairwise(widths):
            count = 1
            while units // 16 % count or units // count * below > MOST_SUMS:
                count += 1
            found += [Part(units // count, below)] * count
        return found

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
        return sum(self.weights(1)) + 1 + int(self.may_lack_choice)


@functools.cache
def update_program(sizes: Sizes) -> Program:
    """Return the kernels of an update for some sizes."""
    kernel = KERNEL_FOLDER / "learner" / ("split_gradient.cu" if sizes.split else "gradient.cu")
    program = _program("updates", kernel, sizes, sizes.update_memory, UPDATE_ARGS)
    if not sizes.split:
        return program
    planned = {
        "PLANNED_COLUMNS": sizes.array_columns,
        "PLANNED_PARTS": len(sizes.parts(sizes.outputs)) + len(sizes.parts(1)),
    }
    return replace(program, constants=(*program.constants, *planned.items()))


@functools.cache
def act_program(sizes: Sizes) -> Program:
    """Return the kernels that act and compute values for some sizes."""
    return _program("fused policy", KERNEL_FOLDER / "learner" / "act.cu", sizes, sizes.act_memory, ACT_ARGS)


def rollout_program(sizes: Sizes, layout: Layout) -> Program:
    """Return the kernel that acts and steps the worlds of an env for some sizes.

    Args:
        sizes: sizes of the policy; its rows are worlds of a tile.
        layout: sizes of the env.
    """
    kernel = KERNEL_FOLDER / "learner" / "rollout.cu"
    program = _program("rollouts", kernel, sizes, sizes.rollout_memory, rollout_args(layout))
    constants = {name: value for name, value in program.constants if name != "MASKED"}  # a macro of the env's headers
    constants |= {"BY_WORLD": int(bool(layout.per_world)), **layout.sizes}
    name = f"rollouts of {layout.spec.name}"
    return replace(program, name=name, constants=tuple(constants.items()), resident=2, env=layout.spec)


def _program(name: str, kernel: Path, sizes: Sizes, memory: Memory, args: Struct) -> Program:
    hidden = {f"HIDDEN_{number}": (*sizes.hidden, 0, 0)[number - 1] for number in (1, 2, 3)}
    constants: dict[str, int | str] = {
        "FEATURES": sizes.features, "LAYERS": len(sizes.hidden), **hidden, "ACTIVATION": ACTIVATIONS.index(sizes.activation),
        "SPLIT": int(sizes.split), "OUTPUTS": sizes.outputs, "ENTRIES": sizes.entries, "ROWS": sizes.rows,
        "WORKERS": sizes.workers, "ADAM_COLUMNS": ADAM_COLUMNS,
        "PLANNED_HALVES": memory.halves, "PLANNED_FLOATS": memory.floats,
    }  # fmt: skip
    if sizes.choices is not None:
        mask_first = sizes.mask_first or (-1,) * sizes.entries
        constants["MASKED"] = int(max(mask_first) >= 0)
        constants |= {"TWO_COUNTS": 1} if sizes.may_lack_choice else {}
        for name_of, values in (("CHOICES", sizes.choices), ("MASK_FIRST", mask_first)):
            constants[name_of] = f"{{{', '.join(map(str, values))}}}"
    return Program(
        name, kernel, args, tuple(constants.items()), sizes.lanes, scratch=None, resident=memory.resident, small=1024,
        prebuilt=False,
    )  # fmt: skip
