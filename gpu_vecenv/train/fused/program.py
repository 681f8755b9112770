"""Kernels of an update for given sizes of networks: constants, memory of a block, columns of the sums."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from itertools import pairwise

from gpu_vecenv.backend.source import KERNEL_FOLDER, Program
from gpu_vecenv.train.fused.arguments import UpdateArgs

ACTIVATIONS = ("tanh", "relu", "elu")
"""In the order of their numbers in ``kernels/learner/network.h``."""

REDUCED, ADAM_COLUMNS = 32, 256
"""Columns of the sums for a team of ``gv_reduce`` and of ``gv_adam``."""

TERMS = 5
"""Columns of the actor behind its weights: sums of terms, and the number of rows. The critic has one."""

MULTIPROCESSOR_BYTES, BLOCK_BYTES = 228 * 1024, 1024
"""Shared memory of a multiprocessor of Hopper, and what each block takes beside its own."""


def _up_to(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _stride(columns: int) -> int:
    """Return the numbers between two rows of a tile, ``gv_stride`` of ``kernels/learner/tile.h``."""
    return (_up_to(columns, 8) // 8 | 1) * 8


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
    """Rows of a tile; a group of 32 lanes has 16 of them."""

    @property
    def lanes(self) -> int:
        """Lanes of a block."""
        return 2 * self.rows

    @property
    def entries(self) -> int:
        """Entries of an action."""
        return self.outputs if self.choices is None else len(self.choices)

    @property
    def halves(self) -> int:
        """Numbers of 16 bits in the memory of a block: weights, then tiles."""
        widths = [_up_to(size, 16) for size in self.hidden]
        parts = _up_to(2 * self.features, 16)
        first = widths[0] * _stride(parts + _up_to(self.features, 16))
        hidden = sum(width * _stride(below) for below, width in pairwise(widths))
        rows, columns = _up_to(self.outputs, 16), _up_to(self.outputs, 8)
        tiles = _stride(parts) + sum(2 * _stride(width) for width in widths) + _stride(rows)
        return first + hidden + (rows + columns) * _stride(widths[-1]) + self.rows * tiles

    @property
    def floats(self) -> int:
        """Floats in the memory of a block: biases, normalisation, outputs of a tile."""
        biases = sum(_up_to(size, 16) for size in self.hidden) + _up_to(self.outputs, 8)
        return biases + 3 * self.features + self.rows * (self.outputs | 1)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return 2 * self.halves + 4 * self.floats

    @property
    def resident(self) -> int:
        """Blocks that a multiprocessor has memory for, up to 512 lanes of them."""
        static = 256
        return max(1, min(512 // self.lanes, MULTIPROCESSOR_BYTES // (self.shared_bytes + static + BLOCK_BYTES)))

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
    """Return the kernels for some sizes."""
    hidden = {f"HIDDEN_{number}": (*sizes.hidden, 0, 0)[number - 1] for number in (1, 2, 3)}
    constants: dict[str, int | str] = {
        "FEATURES": sizes.features, "LAYERS": len(sizes.hidden), **hidden, "ACTIVATION": ACTIVATIONS.index(sizes.activation),
        "OUTPUTS": sizes.outputs, "ENTRIES": sizes.entries, "ROWS": sizes.rows, "ADAM_COLUMNS": ADAM_COLUMNS,
        "PLANNED_HALVES": sizes.halves, "PLANNED_FLOATS": sizes.floats, "ARGS_SIZE": ctypes.sizeof(UpdateArgs),
    }  # fmt: skip
    if sizes.choices is not None:
        mask_first = sizes.mask_first or (-1,) * sizes.entries
        constants["MASKED"] = int(max(mask_first) >= 0)
        for name, values in (("CHOICES", sizes.choices), ("MASK_FIRST", mask_first)):
            constants[name] = f"{{{', '.join(map(str, values))}}}"
    kernel = KERNEL_FOLDER / "learner" / "gradient.cu"
    return Program("updates", kernel, tuple(constants.items()), sizes.lanes, scratch=None, resident=sizes.resident)
