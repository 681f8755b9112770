"""Kernels for given sizes of a GRU with two linear heads: memory, columns of sums and macros; see ``tile_plan.py``."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from gpu_vecenv.backend.source import KERNEL_FOLDER, Program
from gpu_vecenv.train.fused.arguments import RECURRENT_ACT_ARGS, RECURRENT_UPDATE_ARGS, SETTINGS
from gpu_vecenv.train.fused.tile_plan import (
    GROUP_ROWS,
    STAGE_ROWS,
    STAGES,
    TERMS,
    WORKERS,
    Memory,
    Network,
    Sizes,
    make_program,
    optimiser_macros,
    stride,
    up_to,
)

GATES, FACTORS = 3, 5
"""Gates of a GRU, and factors of derivatives of a unit that wait for the way back."""

RESIDENT = 2
"""Most blocks of a multiprocessor; a lane then has all registers that a lane may have."""


@dataclass(frozen=True)
class RecurrentSizes(Sizes):
    """Sizes of a GRU, the only entry of ``hidden``, of which actor and critic are linear functions.

    A tile has ``rows`` rows, which are steps of ``GROUP_ROWS`` sequences. The memory of a block holds one network, whose outputs
    are those of the actor and behind them the value.
    """

    rows: int = 4 * GROUP_ROWS

    @property
    def num_networks(self) -> int:
        """See ``Sizes``; it is one network."""
        return 1

    @property
    def num_layers(self) -> int:
        """See ``Sizes``: weights of the features, weights of the state, and the heads of actor and critic."""
        return 4

    @property
    def tile_rows(self) -> int:
        """See ``Sizes``; rows of a minibatch are sequences."""
        return GROUP_ROWS

    @property
    def state_weights_at(self) -> int:
        """First number of the weights of the state, behind those of the features."""
        return GATES * self.widths[0] * self.strides[1]

    @property
    def weights_at(self) -> list[int]:
        """See ``Sizes``; the weights of the state belong to layer 1."""
        return [0, 0, self.state_weights_at + GATES * self.widths[0] * self.strides[2]]

    @property
    def heads(self) -> int:
        """Outputs of both heads."""
        return self.outputs + 1

    def network(self, outputs: int) -> Network:
        """See ``Sizes``; the biases of a GRU are those of r, of z and both of n."""
        network = super().network(outputs)
        return network._replace(floats=network.floats + GATES * self.widths[0])

    @property
    def output_stride(self) -> int:
        """See ``Sizes``."""
        return self.heads | 1

    @property
    def delta_stride(self) -> int:
        """See ``Sizes``."""
        return stride(up_to(self.heads, 16))

    @property
    def inputs(self) -> int:
        """Columns of features and states in the arrays between kernels."""
        return up_to(self.features, 16) + self.widths[0]

    @property
    def stash_columns(self) -> int:
        """Columns of all arrays between kernels: inputs, factors and derivatives by the outputs."""
        return self.inputs + FACTORS * self.widths[0] + up_to(self.heads, 16)

    @property
    def update_memory(self) -> Memory:
        """Memory of a block of an update; stages of ``gv_gru_sums`` take its place."""
        network, rows, unit_stride = self.network(self.heads), self.rows, self.strides[2]
        head_back, tiles = up_to(self.heads, 16) * unit_stride, network.halves
        names = ("HEAD_BACK", "FEATURES", "HIGH", "LOW", "NEXT", "DELTAS", "TILES_END")
        sizes = (
            head_back, rows * self.feature_stride, rows * unit_stride, rows * unit_stride, 2 * GROUP_ROWS * unit_stride,
            rows * self.delta_stride,
        )  # fmt: skip
        places = dict(zip(names, accumulate(sizes, initial=tiles), strict=True))
        stages = STAGES * STAGE_ROWS * (self.widths[0] + self.inputs)
        keep = network.floats + rows * self.output_stride
        prefetch = up_to(keep + rows, 4)  # on a multiple of 16 bytes
        floats = prefetch + rows * self.staged_floats + 2 * ctypes.sizeof(SETTINGS.form) // 4
        places |= {"OUTPUTS": network.floats, "KEEP": keep, "PREFETCH": prefetch}
        memory = self._memory(max(places["TILES_END"], stages), floats, places)
        return memory._replace(resident=min(memory.resident, RESIDENT))

    @property
    def act_memory(self) -> Memory:
        """Memory of a block that acts on ``GROUP_ROWS`` rows: the network, features, states before and after a step, outputs."""
        network, unit_stride = self.network(self.heads), self.strides[2]
        sizes = (GROUP_ROWS * self.feature_stride, 2 * GROUP_ROWS * unit_stride, GROUP_ROWS * unit_stride)
        *places, halves = accumulate(sizes, initial=network.halves)
        keep = network.floats + GROUP_ROWS * self.output_stride
        at = dict(zip(("FEATURES", "STATES", "LOW"), places, strict=True)) | {"OUTPUTS": network.floats, "KEEP": keep}
        return self._memory(halves, keep + GROUP_ROWS, at)

    @property
    def rollout_memory(self) -> Memory:
        """See ``Sizes``; it is that of a block that acts."""
        return self.act_memory

    @property
    def acting(self) -> RecurrentSizes:
        """The same network on tiles of ``GROUP_ROWS`` rows, which ``WORKERS`` groups share."""
        return replace(self, rows=GROUP_ROWS, workers=WORKERS)

    @property
    def gru_columns(self) -> int:
        """Columns of the weights and biases of the GRU, which are the first of the actor."""
        units = self.hidden[0]
        return GATES * units * (self.features + units + 2)

    @property
    def weight_columns_of_both(self) -> tuple[int, int]:
        """Columns of the weights and biases of the GRU and the actor's head, and of the critic's head."""
        return self.gru_columns + self.outputs * (self.hidden[0] + 1), self.hidden[0] + 1

    @property
    def actor_columns(self) -> int:
        """See ``Sizes``."""
        return self.weight_columns_of_both[0] + self.spreads + TERMS

    @property
    def critic_columns(self) -> int:
        """See ``Sizes``."""
        return self.weight_columns_of_both[1] + 1

    @property
    def macros(self) -> dict[str, Any]:
        """See ``Sizes``."""
        network = self.network(self.heads)
        return {
            **super().macros, "BIASES_AT": [0, 0, (GATES + 1) * self.widths[0]],
            "NETWORK_COLUMNS": [network.columns] * 2, "NETWORK_ROWS": [network.rows] * 2, "NETWORK_FLOATS": [network.floats] * 2,
            "WEIGHT_COLUMNS": list(self.weight_columns_of_both), "GRU_COLUMNS": self.gru_columns,
            "STATE_WEIGHTS_AT": self.state_weights_at,
        }  # fmt: skip


@functools.cache
def recurrent_update_program(sizes: RecurrentSizes) -> Program:
    """Return the kernels of an update for some sizes."""
    kernel = KERNEL_FOLDER / "learner" / "gru_update.cu"
    return make_program("recurrent updates", kernel, sizes, sizes.update_memory, RECURRENT_UPDATE_ARGS, optimiser_macros())


@functools.cache
def recurrent_act_program(sizes: RecurrentSizes) -> Program:
    """Return the kernel that acts for some sizes, see ``RecurrentSizes.acting``."""
    kernel = KERNEL_FOLDER / "learner" / "act.cu"
    return make_program("fused policy", kernel, sizes, sizes.act_memory, RECURRENT_ACT_ARGS, {})
