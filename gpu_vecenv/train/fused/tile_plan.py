"""Kernels for given sizes of networks: layouts of memory, columns of sums, and the macros that tell them to C++.

Places and sizes are stated here alone. Kernels get them as macros ``GV_NAME``. Those of layers are tables: entry 0 is that of the
features, or nothing, and the last one is that of the outputs.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_vecenv.backend.source import KERNEL_FOLDER, Program
from gpu_vecenv.spec.arguments import Struct
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.train.algorithms.masked_adam import BETAS
from gpu_vecenv.train.fused.arguments import ACT_ARGS, MAX_LAYERS, SETTINGS, UPDATE_ARGS, rollout_args

ACTIVATIONS = ("tanh", "relu", "elu")

REDUCED, ADAM_COLUMNS = 32, 256
"""Columns of the sums for a team of ``gv_reduce`` and of ``gv_adam``."""

TERMS = 5
"""Columns of the actor behind its weights: sums of terms, and the number of rows with a choice. The critic has one,
and the number of rows if those of the actor may be fewer."""

GROUP_ROWS = 16
"""Rows of a group of 32 lanes in a tile."""

WORKERS = 4
"""Groups that share the network of a tile, beside the leader."""

STAGES, STAGE_ROWS, MOST_SUMS = 4, 64, 32768
"""Numbers of a team that sums a part of the gradient of a split network: stages, of which some are loaded while another is
multiplied; rows of a stage; and most sums, 128 for each of 256 lanes."""

COLUMN_PART, FEATURE_PART, CHUNK = 64, 128, 64
"""A block in a wide first layer: most units of a network at a time, most features that it sums, and features of a chunk."""

PACK_ROWS = 16
"""Rows whose features a block packs."""

MOST_HEAD_ROWS = 64
"""Most outputs of an actor with many heads whose gradient a team sums: as many as leave memory for the stages."""

ACT_ROW_FLOATS = 14
"""Floats of a row of many heads in the memory of a block that acts: places of action and mask, its mask, counters of its draw."""

HELD_COLUMNS = 80
"""Most outputs of a chunk of many heads that stay in registers: 40 floats of a lane."""

MANY_OUTPUTS = 16
"""Outputs of a split actor from which on it has much more work than the critic."""

FEW_CHOICES = 16
"""Most choices of an entry whose outputs a lane holds."""

MOST_TAKEN = 6
"""Most entries of a chunk whose choices are copied while its outputs are computed; those of further ones are read."""

LARGEST_HALF = float(np.finfo(np.float16).max)
"""Largest number of 16 bits."""

MULTIPROCESSOR_BYTES, BLOCK_BYTES = 228 * 1024, 1024
"""Shared memory of a multiprocessor of Hopper, and what each block takes beside its own."""


def up_to(count: int, multiple: int) -> int:
    """Return the least multiple that is not below a count."""
    return -(-count // multiple) * multiple


def stride(columns: int) -> int:
    """Return the numbers between two rows of a tile: an odd number of 16 bytes, so that eight rows lie in different banks."""
    return (up_to(columns, 8) // 8 | 1) * 8


class Memory(NamedTuple):
    """Memory of a block."""

    halves: int
    """Numbers of 16 bits."""
    floats: int
    """Floats behind them."""
    resident: int
    """Blocks that a multiprocessor has memory for, up to 512 lanes of them."""
    places: Mapping[str, int]
    """First number of the arrays in it, by name; among the numbers of 16 bits, or among the floats."""
    streamed: int = 0
    """Numbers of 16 bits that kernels of a wide first layer have in place of all others."""

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory."""
        return max(2 * self.halves + 4 * self.floats, 2 * self.streamed)

    @property
    def macros(self) -> dict[str, int]:
        """Macros of the kernels that use it."""
        places = {f"{name}_AT": place for name, place in self.places.items()}
        return {"HALVES": self.halves, "FLOATS": self.floats, "STREAMED": self.streamed, **places}


class Stream(NamedTuple):
    """Columns of a wide first layer, which blocks compute in parts: the units of one network, or of two side by side."""

    part: int
    """Columns of a part."""
    parts: int

    @property
    def columns(self) -> int:
        """Columns of all parts, of which the last ones may be behind the last unit."""
        return self.part * self.parts

    @property
    def macros(self) -> dict[str, int]:
        """Macros of the kernels that compute it."""
        return {"COLUMN_PART": self.part, "COLUMN_PARTS": self.parts}


class Network(NamedTuple):
    """A network in the memory of a block: weights of 16 bits, of the upper layers if it is split, then floats."""

    columns: int
    """Columns of the outputs in products."""
    rows: int
    """Rows of the last layer's weights in memory."""
    halves: int
    floats: int
    """Biases and normalisation."""
    last_width: int
    """Columns of the derivatives by the outputs between kernels."""
    gradient_tiles: list[int]
    """Tiles of the gradient of each layer of a split network, which blocks sum one at a time."""


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
    wide: bool = False
    """The first layer of a split network streams through the memory of a block."""
    shared: int = 0
    """Features of the shared part of observations, the first ones; a network with one is wide."""
    stages: int = 2
    """Chunks of a wide first layer in the memory of a block, or stages of the sums of its gradient."""
    staged: bool = False
    """The memory of a block has room for the features of the next rows, though they are many."""
    alone: bool = False
    """Blocks are so few that each has a multiprocessor of its own, with all its registers."""
    workers: int = 0
    """Groups that share the columns of a tile in a rollout, beside one that steps the worlds; 0: each group has its own rows."""
    held: bool = False
    """In an update, outputs of a split actor stay in registers; see ``of_update``."""
    head_columns: int = 0
    """Most outputs of a chunk of an actor with many heads, whose last layer is computed chunk by chunk; 0: all at once."""

    @property
    def of_update(self) -> Sizes:
        """These sizes for the kernels of an update.

        Outputs of a split actor without masks stay in registers. Of many heads, these have to be few choices, as many in each
        entry: a lane has all those of an entry. Four lanes have entries side by side, and products take pairs of matrices with
        two choices of each.
        """
        choices = set(self.choices or ())
        if not self.split or not choices or max(self.mask_first, default=-1) >= 0:
            return self
        if not self.head_columns:
            return replace(self, held=True)
        if len(choices) > 1 or max(choices) > FEW_CHOICES:
            return self
        matrices = [count for count in range(up_to(max(choices), 2) // 2, HELD_COLUMNS // 8 + 1, up_to(max(choices), 2) // 2)]
        columns = max((8 * count for count in matrices if count % 2 == 0), default=0)
        return replace(self, held=True, head_columns=columns) if columns else self

    @property
    def num_networks(self) -> int:
        """Networks that blocks learn for: actor and critic."""
        return 2

    @property
    def sharing(self) -> int:
        """Networks that share the GPU. A critic beside the loss of choices has so little work that each gets all of it."""
        return 1 if self.head_columns or (self.split and self.outputs > MANY_OUTPUTS) else self.num_networks

    @property
    def num_layers(self) -> int:
        """Pairs of weights and biases that a kernel which acts reads."""
        return len(self.hidden) + 1

    @property
    def tile_rows(self) -> int:
        """Rows of a minibatch in a tile."""
        return self.rows

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
    def chunks(self) -> list[range]:
        """Entries of each chunk of an actor with many heads: as many as ``head_columns`` has room for."""
        first, outputs, chunks = 0, 0, []
        for entry, size in enumerate(self.choices or () if self.head_columns else ()):
            columns = up_to(size, 2) if self.held else size  # a lane has pairs
            if outputs + columns > self.head_columns:
                chunks.append(range(first, entry))
                first, outputs = entry, 0
            outputs += columns
        return [*chunks, range(first, self.entries)] if self.head_columns else []

    @property
    def loss_row_floats(self) -> int:
        """Floats of a row of many heads in an update: places of its action and mask, its mask in a chunk, two numbers."""
        return up_to(6 + self.head_columns // 32, 2)  # the places have 8 bytes

    @property
    def taken_entries(self) -> int:
        """Entries of a chunk whose choices are copied to the memory of a block."""
        most = max(map(len, self.chunks), default=0)
        in_lanes = self.held and self.head_columns
        return self.head_columns // up_to(max(self.choices or (1,)), 2) if in_lanes else min(MOST_TAKEN, most)

    @property
    def tile_outputs(self) -> int:
        """Outputs of a row that are in memory at a time."""
        return 1 if self.held else self.head_columns or self.outputs

    @property
    def chunk_halves(self) -> int:
        """Numbers of 16 bits of a chunk of the last layer: high and low parts of weights."""
        return 2 * self.head_columns * self.strides[-1]

    @property
    def packed_halves(self) -> int:
        """Numbers of 16 bits of the last layer of an actor with many heads, as kernels copy it chunk by chunk."""
        return len(self.chunks) * self.chunk_halves

    @property
    def mask_words(self) -> int:
        """Words of 32 bits of a row's mask for an actor with many heads; 0 without masks."""
        return len(self.chunks) * self.head_columns // 32 if max(self.mask_first, default=-1) >= 0 else 0

    @property
    def widths(self) -> list[int]:
        """Columns of the hidden layers in memory."""
        return [up_to(size, 16) for size in self.hidden]

    @property
    def strides(self) -> list[int]:
        """Numbers between two rows of weights in memory, by layer.

        The first layer has high parts of weights for both parts of features, then low parts.
        """
        first = up_to(2 * self.features, 16) + up_to(self.features, 16)
        return [0, stride(first), *map(stride, self.widths)]

    @property
    def first_halves(self) -> int:
        """Numbers of 16 bits of the first layer in the memory of a block: its weights."""
        return self.widths[0] * self.strides[1]

    @property
    def weights_at(self) -> list[int]:
        """First number of the weights of each layer. The first layer of a split network is not in the memory of the others."""
        sizes = [width * stride for width, stride in zip(self.widths, self.strides[1:], strict=False)]
        return [0, *accumulate([0, *sizes[1:]] if self.split else sizes, initial=0)]

    def network(self, outputs: int) -> Network:
        """Return a network with some outputs in the memory of a block; an actor with many heads without its last layer."""
        chunked = self.head_columns > 0 and outputs == self.outputs
        columns, rows = (0, 0) if chunked else (up_to(outputs, 8), up_to(outputs, 16))
        halves = self.weights_at[-1] + (rows + columns) * self.strides[-1]  # the last layer has high parts and low parts
        last_width = len(self.chunks) * self.head_columns if chunked else rows
        gradient_tiles, units = [0], [up_to(self.features, 16), *self.widths, last_width]
        for below, width in pairwise(units):
            most = min(MOST_SUMS, MOST_HEAD_ROWS * below) if chunked and len(gradient_tiles) == len(units) - 1 else MOST_SUMS
            count = 1
            while width // 16 % count or width // count * below > most:
                count += 1
            gradient_tiles.append(count)
        if self.wide:
            gradient_tiles[1] = 0
        floats = sum(self.widths) + columns + (0 if self.wide else 3 * self.features)
        return Network(columns, rows, halves, floats, last_width, gradient_tiles)

    def stream(self, networks: int) -> Stream:
        """Return the columns of a wide first layer of one network or of both."""
        columns = networks * self.widths[0]
        parts = -(-self.widths[0] // COLUMN_PART)
        return Stream(up_to(-(-columns // parts), 16), parts)

    @property
    def part_features(self) -> tuple[int, int]:
        """Features of the parts of an observation: the shared one, and that of an agent."""
        return self.shared, self.features - self.shared

    @property
    def chunk_features(self) -> list[int]:
        """Features of a chunk of each part."""
        return [CHUNK if features > CHUNK // 2 else CHUNK // 2 for features in self.part_features]

    @property
    def part_columns(self) -> list[int]:
        """Columns of packed rows of each part: whole sectors of memory."""
        return [up_to(features, 32) for features in self.part_features]

    def streamed(self, columns: Stream) -> int:
        """Return the numbers of 16 bits in the chunks of a wide first layer."""
        return self.stages * (self.rows + columns.part) * max(map(stride, self.chunk_features))

    @property
    def feature_part(self) -> int:
        """Features whose sums a block has at a time."""
        return min(FEATURE_PART, up_to(max(self.part_features), 16))

    @property
    def feature_parts(self) -> list[int]:
        """Parts of the features of each part of an observation, for sums of the gradient."""
        return [-(-features // self.feature_part) for features in self.part_features]

    @property
    def feature_stride(self) -> int:
        """Numbers between two rows of features, which have high parts, then low parts."""
        return stride(up_to(2 * self.features, 16))

    @property
    def delta_stride(self) -> int:
        """Numbers between two rows of derivatives by the outputs."""
        return stride(up_to(self.tile_outputs, 16))

    @property
    def output_stride(self) -> int:
        """Floats between two rows of outputs; an odd number, so that lanes read different banks.

        With many heads, 9 more than a multiple of 32: where a group writes its fragments, at most two lanes share a bank. If
        outputs stay in registers, a sum of each of the four lanes that have those of a row.
        """
        if self.held and self.head_columns:
            return 5
        return up_to(self.head_columns, 32) + 9 if self.head_columns else self.tile_outputs | 1

    @property
    def register_entries(self) -> int:
        """Entries of an action that are prefetched before the loss; with many entries, the loss reads them itself."""
        return self.entries if self.entries <= 4 else 1

    @property
    def holds_features(self) -> bool:
        """True if a lane has registers for features of the next rows."""
        return self.features <= 32

    @property
    def staged_features(self) -> int:
        """Features of a row that are prefetched: none if the memory is short, or if another kernel reads them."""
        return self.features if (self.holds_features or self.staged) and not self.split else 0

    @property
    def staged_piece(self) -> int:
        """Features that are copied at a time: 16 bytes, if they are many."""
        return 4 if self.staged and self.features % 4 == 0 else 1

    @property
    def staged_floats(self) -> int:
        """Floats of a row that are prefetched: what the loss reads, and features."""
        return 4 + self.register_entries + self.staged_features

    @property
    def team_sums(self) -> bool:
        """True if a block sums the gradient of the layers above a wide one itself, as it has the memory anyway."""
        if not (self.wide and self.held) or self.head_columns:
            return False
        return self._update_memory(True).shared_bytes <= self._update_memory(False).shared_bytes

    @property
    def update_memory(self) -> Memory:
        """Memory of a block of an update: the network, tiles of features, units and derivatives, outputs of a tile, settings."""
        return self._update_memory(self.team_sums)

    def _update_memory(self, team_sums: bool) -> Memory:
        """Return the memory of a block of an update."""
        network, rows = self.network(self.outputs), self.rows
        places, end = self._float_places(self.loss_row_floats)
        prefetch = up_to(end, 4)  # on a multiple of 16 bytes
        taken = prefetch + rows * self.staged_floats + ctypes.sizeof(SETTINGS.form) // 4
        floats = taken + rows * self.taken_entries
        places |= {"PREFETCH": prefetch, "HEAD_TAKEN": taken}
        if self.split:
            columns = [*zip(self.array_widths(network), network.gradient_tiles[1:], strict=True)][int(self.wide) :]
            stages = STAGES * STAGE_ROWS * max(width // gradient_tiles + below for (below, width), gradient_tiles in columns)
            deltas = self.upper_halves
            upper = deltas + rows * self.delta_stride
            places |= {"DELTAS": deltas, "HEAD_WEIGHTS": network.halves, "TEAM_ARRAYS": 0}
            if team_sums:  # the actor's derivatives by the outputs, and two arrays of each hidden layer
                places["TEAM_ARRAYS"] = deltas + rows * max(self.delta_stride, network.last_width)
                upper = places["TEAM_ARRAYS"] + 2 * rows * sum(self.widths)
            if self.wide:
                joint = self.stream(2)
                sums = self.stages * STAGE_ROWS * (joint.part + stride(self.feature_part))
                return self._memory(upper, floats, places, max(self.streamed(joint), sums, stages))
            first = self.first_halves + rows * self.feature_stride
            places["FEATURES"] = self.first_halves
            return self._memory(max(first, upper, stages), floats, places)
        halves = network.halves + self.units_at[-1] + rows * self.delta_stride
        return self._memory(halves, floats, {**places, "TILES": network.halves})

    @property
    def upper_halves(self) -> int:
        """Numbers of 16 bits of the layers above the first one: of either network, and two chunks of an actor with many heads."""
        return max(self.network(self.outputs).halves + 2 * self.chunk_halves, self.network(1).halves)

    def _float_places(self, row_floats: int) -> tuple[dict[str, int], int]:
        """Return the places of outputs among the floats behind a network, with what many heads need, and the end of these."""
        outputs = max(self.network(self.outputs).floats, self.network(1).floats)
        biases = up_to(outputs + self.rows * self.output_stride, 2)  # on a multiple of 8 bytes, as the rows are
        if not self.head_columns:
            return {"OUTPUTS": outputs}, outputs + self.rows * self.output_stride
        rows = biases + 2 * self.head_columns
        following = rows + self.rows * row_floats
        end = following + len(self.chunks) * (self.rows // GROUP_ROWS + 1) + 1
        return {"OUTPUTS": outputs, "HEAD_BIASES": biases, "HEAD_ROWS": rows, "HEAD_NEXT": following}, end

    def array_widths(self, network: Network) -> list[tuple[int, int]]:
        """Return the columns of the layer below and of the layer itself in the arrays of a split network, for each layer."""
        return list(pairwise((up_to(self.features, 16), *self.widths, network.last_width)))

    @property
    def units_at(self) -> list[int]:
        """First number of the units of each layer in the tiles of an update: features, then units and derivatives by layer."""
        tiles = (2 * self.rows * stride(width) for width in self.widths)
        return [0, *accumulate(tiles, initial=self.rows * self.feature_stride)]

    @property
    def act_memory(self) -> Memory:
        """Memory of a block that acts: the network, a tile of features, and outputs. It is less than an update needs."""
        network = self.network(self.outputs)
        places, floats = self._float_places(ACT_ROW_FLOATS)
        if self.wide:
            places |= {"FEATURES": 0, "HEAD_WEIGHTS": network.halves}
            return self._memory(self.upper_halves, floats, places, self.streamed(self.stream(1)))
        at = self.first_halves if self.split else network.halves
        places |= {"FEATURES": at, "HEAD_WEIGHTS": network.halves}
        return self._memory(max(at + self.rows * self.feature_stride, self.upper_halves), floats, places)

    @property
    def last_chunk(self) -> int:
        """Columns of the last hidden layer whose share in the outputs is computed at a time."""
        return 32 if (len(self.hidden) == 1 or self.split) and self.widths[-1] % 32 == 0 else 16

    @property
    def worker_units_at(self) -> list[int]:
        """First number of the units of each hidden layer but the last one in the memory of specialised warps, and behind them."""
        return [0, *accumulate((self.rows * stride(width) for width in self.widths[:-1]), initial=0)]

    @property
    def rollout_memory(self) -> Memory:
        """Memory of a block of a rollout: that of one that acts, and units and shares of outputs of specialised warps."""
        acting = self.act_memory
        shares = self.widths[-1] // self.last_chunk * self.rows * self.output_stride
        halves, floats = (self.worker_units_at[-1], shares) if self.workers else (0, 0)
        places = {**acting.places, "WORKER": acting.halves, "SHARES": acting.floats}
        return self._memory(acting.halves + halves, acting.floats + floats, places)

    def _memory(self, halves: int, floats: int, places: Mapping[str, int], streamed: int = 0) -> Memory:
        """Return the memory of a block with some numbers of 16 bits, and floats; see ``Memory``."""
        static, memory = 256, Memory(halves, floats, 1, places, streamed)
        room = MULTIPROCESSOR_BYTES // (memory.shared_bytes + static + BLOCK_BYTES)
        return memory._replace(resident=1 if self.alone else max(1, min(512 // self.lanes, room)))

    @property
    def arrays_at(self) -> list[int]:
        """First column of the units of each layer in a network's arrays between kernels, then of derivatives by the outputs.

        A wide first layer takes no columns here: actor and critic have its units side by side.
        """
        first, *above = (2 * width for width in self.widths)
        return [0, *accumulate((0 if self.wide else first, *above), initial=0)]

    @property
    def array_columns(self) -> int:
        """Columns of the actor's arrays between kernels: units and derivatives of hidden layers, derivatives by the outputs."""
        return self.arrays_at[-1] + self.network(self.outputs).last_width

    @property
    def common_columns(self) -> int:
        """Columns of arrays that both networks have: features, or units and derivatives of a wide first layer."""
        return 2 * self.stream(2).columns if self.wide else up_to(self.features, 16)

    @property
    def stash_columns(self) -> int:
        """Columns of all arrays between kernels: those of both networks, those of the actor and those of the critic."""
        return self.common_columns + self.array_columns + self.arrays_at[-1] + self.network(1).last_width

    @property
    def num_gradient_tiles(self) -> int:
        """Tiles of the gradients of both networks."""
        return sum(self.network(self.outputs).gradient_tiles) + sum(self.network(1).gradient_tiles)

    @property
    def columns_at(self) -> list[int]:
        """First column of the weights of each layer in the sums of a network; biases follow weights."""
        return [0, *accumulate(((below + 1) * units for below, units in pairwise((self.features, *self.hidden))), initial=0)]

    def weight_columns(self, outputs: int) -> int:
        """Return the columns of the weights and biases of a network."""
        return self.columns_at[-1] + outputs * (self.hidden[-1] + 1)

    @property
    def spreads(self) -> int:
        """Columns of derivatives by ``log_std``, behind those of the actor's weights."""
        return self.entries if self.choices is None else 0

    @property
    def actor_columns(self) -> int:
        """Columns of the sums of the actor."""
        return self.weight_columns(self.outputs) + self.spreads + TERMS

    @property
    def critic_columns(self) -> int:
        """Columns of the sums of the critic."""
        return self.weight_columns(1) + 1 + int(self.may_lack_choice)

    @property
    def macros(self) -> dict[str, Any]:
        """Macros of all kernels: numbers, tables by layer, and tables by network."""
        networks, nothing = (self.network(self.outputs), self.network(1)), [0] * (MAX_LAYERS - 1 - len(self.hidden))
        return {
            "FEATURES": self.features, "LAYERS": len(self.hidden), "SPLIT": int(self.split), "OUTPUTS": self.outputs,
            "ENTRIES": self.entries, "ROWS": self.rows, "WORKERS": self.workers,
            "HELD": int(self.held and not self.head_columns), "TEAM_SUMS": int(self.team_sums),
            **{name.upper(): number for number, name in enumerate(ACTIVATIONS)}, "ACTIVATION": self.activation.upper(),
            "UNITS": [self.features, *self.hidden, *nothing], "WIDTHS": [up_to(self.features, 16), *self.widths, *nothing],
            "WEIGHT_STRIDES": self.strides, "WEIGHTS_AT": self.weights_at, "BIASES_AT": [0, *accumulate(self.widths, initial=0)],
            "COLUMNS_AT": self.columns_at, "UNITS_AT": self.units_at,
            "WORKER_UNITS_AT": self.worker_units_at, "ARRAYS_AT": self.arrays_at,
            "NETWORK_COLUMNS": [network.columns for network in networks], "NETWORK_ROWS": [network.rows for network in networks],
            "NETWORK_FLOATS": [network.floats for network in networks],
            "LAST_WIDTHS": [network.last_width for network in networks], "CHUNKS": len(self.chunks),
            "GRADIENT_TILES": [network.gradient_tiles for network in networks],
            "WEIGHT_COLUMNS": [self.weight_columns(self.outputs), self.weight_columns(1)],
            "FEATURE_COLUMNS": up_to(2 * self.features, 16), "FEATURE_STRIDE": self.feature_stride,
            "OUTPUT_STRIDE": self.output_stride, "DELTA_STRIDE": self.delta_stride, "LAST_CHUNK": self.last_chunk,
            "REGISTER_ENTRIES": self.register_entries, "FEATURES_IN_REGISTERS": int(self.holds_features),
            "STAGED_FEATURES": self.staged_features, "STAGED_PIECE": self.staged_piece,
            "STAGED_FLOATS": self.staged_floats, "SPREADS": self.spreads,
            "TWO_COUNTS": int(self.may_lack_choice), "ACTOR_COLUMNS": self.actor_columns, "CRITIC_COLUMNS": self.critic_columns,
            "GRU_COLUMNS": 0, "ARRAY_COLUMNS": self.array_columns, "COMMON_COLUMNS": self.common_columns,
            "STAGES": STAGES, "STAGE_ROWS": STAGE_ROWS, **self._wide_macros,
        }  # fmt: skip

    @property
    def _wide_macros(self) -> dict[str, Any]:
        """Macros of a wide first layer."""
        return {
            "WIDE": int(self.wide), "SHARED": int(self.shared > 0), "PART_FEATURES": self.part_features,
            "PART_COLUMNS": self.part_columns, "PART_CHUNKS": self.chunk_features,
            "CHUNK_STRIDES": list(map(stride, self.chunk_features)),
            "FEATURE_PART": self.feature_part, "STREAM_STAGES": self.stages, "PACK_ROWS": PACK_ROWS, **self.stream(2).macros,
        }  # fmt: skip


@functools.cache
def update_program(sizes: Sizes) -> Program:
    """Return the kernels of an update for some sizes."""
    kernel = KERNEL_FOLDER / "learner" / ("split_gradient.cu" if sizes.split else "gradient.cu")
    macros = {**optimiser_macros(), "HEAD_ROW_FLOATS": sizes.loss_row_floats}
    return make_program("updates", kernel, sizes, sizes.update_memory, UPDATE_ARGS, macros)


def optimiser_macros() -> dict[str, Any]:
    """Return the macros of the kernels behind a gradient."""
    macros: dict[str, Any] = {"REDUCED": REDUCED, "ADAM_COLUMNS": ADAM_COLUMNS}
    for name, beta in zip(("M", "V"), BETAS, strict=True):
        exact = Decimal(str(beta))  # as a float, its rest and its logarithm would lose digits
        macros |= {f"{name}_DECAY": f"{exact}f", f"{name}_SHARE": f"{1 - exact}f", f"LOG_{name}_DECAY": float(exact.ln())}
    return macros


@functools.cache
def act_program(sizes: Sizes) -> Program:
    """Return the kernels that act and compute values for some sizes."""
    kernel = KERNEL_FOLDER / "learner" / "act.cu"
    macros = {**sizes.stream(1).macros, "HEAD_ROW_FLOATS": ACT_ROW_FLOATS}
    return make_program("fused policy", kernel, sizes, sizes.act_memory, ACT_ARGS, macros)


def rollout_program(sizes: Sizes, layout: Layout) -> Program:
    """Return the kernel that acts and steps the worlds of an env for some sizes.

    Args:
        sizes: sizes of the policy; its rows are worlds of a tile.
        layout: sizes of the env.
    """
    kernel, name = KERNEL_FOLDER / "learner" / "rollout.cu", f"rollouts of {layout.spec.name}"
    macros = {"BY_WORLD": int(bool(layout.per_world)), **layout.sizes, **layout.choices}
    program = make_program(name, kernel, sizes, sizes.rollout_memory, rollout_args(layout), macros)
    constants = tuple(constant for constant in program.constants if constant[0] != "MASKED")  # a macro of the env's headers
    return replace(program, constants=constants, resident=2, env=layout.spec)


def make_program(name: str, kernel: Path, sizes: Sizes, memory: Memory, args: Struct, macros: Mapping[str, Any]) -> Program:
    """Return a program for some sizes of networks, with further macros."""
    constants = {**sizes.macros, **memory.macros, **macros}
    if sizes.choices is not None:
        mask_first = sizes.mask_first or (-1,) * sizes.entries
        constants |= {"MASKED": int(max(mask_first) >= 0), "CHOICES": sizes.choices, "MASK_FIRST": mask_first}
        constants |= _chunk_macros(sizes, sizes.choices, mask_first) if sizes.head_columns else {}
    return Program(
        name, kernel, args, tuple((macro, _text(value)) for macro, value in constants.items()), sizes.lanes, scratch=None,
        resident=memory.resident, small=1024, prebuilt=False,
    )  # fmt: skip


def _chunk_macros(sizes: Sizes, choices: Sequence[int], mask_first: Sequence[int]) -> dict[str, Any]:
    """Return the macros of an actor with many heads: tables by chunk, by entry and by output."""
    first = [0, *accumulate(choices)]
    columns_at = [first[entry] - first[chunk.start] for chunk in sizes.chunks for entry in chunk]
    ends = [*(chunk.start for chunk in sizes.chunks), sizes.entries]
    masks = [at + i if at >= 0 else -1 for at, size in zip(mask_first, choices, strict=True) for i in range(size)]
    return {
        "MOST_CHOICES": max(choices), "EQUAL_CHOICES": choices[0] if len(set(choices)) == 1 else 0,
        "HEAD_COLUMNS": sizes.head_columns, "HELD_HEADS": int(sizes.held), "CHUNK_ENTRIES": ends,
        "CHUNK_OUTPUTS": [first[entry] for entry in ends], "HEAD_COLUMNS_AT": columns_at, "MASK_COLUMNS": masks,
        "TAKEN_ENTRIES": sizes.taken_entries, "EVEN_CHOICES": int(not any(size % 2 for size in choices)),
        "MASKS_ALL": int(masks == [*range(first[-1])]),
    }  # fmt: skip


def _text(value: Any) -> int | str:
    """Return the text of a macro: a name of another one, a number, or a list in braces."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{{{', '.join(str(_text(each)) for each in value)}}}"
    return f"GV_{value}" if value in map(str.upper, ACTIVATIONS) else str(value) if isinstance(value, float) else value
