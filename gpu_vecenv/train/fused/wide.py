"""Launches of an update whose first layer streams through the memory of a block: ``kernels/learner/wide.h``."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.kernels import SMALL_BYTES, empty_halves, is_addressed_by_rows, slab
from gpu_vecenv.train.fused.split import ROOM, SplitKernels
from gpu_vecenv.train.fused.tile_plan import PACK_ROWS, Sizes, up_to
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.processes.group import Processes


class WideKernels(SplitKernels):
    """Kernels for one policy and one size of minibatches.

    Attributes:
        packed_rows: normal features of all rows of a rollout, numbers of 16 bits.
        rows_are_packed: they are those of the samples of the next update.
    """

    rows_are_packed = False

    def __init__(
        self, policy: ActorCritic, sizes: Sizes, config: PPOConfig, adam: MaskedAdam, num_rows: int, alone: bool = True,
        processes: Processes | None = None, shape: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        """Allocate the arrays.

        Args:
            policy: see ``UpdateKernels``.
            sizes: see ``UpdateKernels``.
            config: see ``UpdateKernels``.
            adam: see ``UpdateKernels``.
            num_rows: see ``UpdateKernels``; whole worlds if observations have a shared part.
            alone: see ``UpdateKernels``.
            processes: see ``UpdateKernels``.
            shape: (T, B), or (T, B, a) for worlds of a rows each.
        """
        all_rows, agents = math.prod(shape), math.prod(shape[2:])
        self.agents = agents
        super().__init__(policy, sizes, config, adam, num_rows, alone, processes)
        self.columns, (shared, own_columns) = sizes.stream(2), sizes.part_columns
        self.packed_rows = empty_halves(all_rows, own_columns, device=self.device)
        of_shared, of_agents = (self.columns.parts * parts for parts in sizes.feature_parts)
        self._tiles_of_agents, self._tiles_of_worlds = of_agents, of_shared
        self.call.set(
            all_rows=all_rows, packed_rows=self.packed_rows, agents=agents, wide_slices=self.slices(of_agents),
            first_weights=empty_halves(self.columns.columns, shared + own_columns, device=self.device),
            first_biases=torch.empty(self.columns.columns, dtype=torch.float32, device=self.device),
        )  # fmt: skip
        if sizes.shared:
            worlds = up_to(self.room // agents, sizes.rows)
            self.call.set(
                packed_worlds=empty_halves(all_rows // agents, shared, device=self.device),
                world_sums=torch.empty(worlds, self.columns.columns, dtype=torch.float32, device=self.device),
                world_deltas=empty_halves(worlds, self.columns.columns, device=self.device),
                world_samples=torch.empty(worlds, dtype=torch.int32, device=self.device),
                world_slices=self.slices(of_shared),
            )  # fmt: skip

    def most_room(self) -> int:
        """See ``SplitKernels``; a part of a minibatch has whole worlds."""
        unit = self.sizes.rows * self.agents
        return max(1, super().most_room() // unit) * unit

    def set_shared(self, shared: Tensor, norm: dict[str, Any]) -> None:
        """Point to the shared part of observations.

        Args:
            shared: float32 (T + 1, B, S).
            norm: members of its normalisation.
        """
        array = shared if is_addressed_by_rows(shared) else shared.contiguous()
        self.call.set(shared=slab(array), shared_norm=norm, worlds_per_step=shared.shape[1])
        self._shared = array  # a queued kernel reads it

    def begin(self) -> None:
        """Also pack the features of the rollout, unless the kernel of the values has done so."""
        super().begin()
        rows = self.args.all_rows
        if not self.rows_are_packed:
            self._launch("gv_pack_rows", -(-rows // PACK_ROWS), SMALL_BYTES)
        if self.sizes.shared:
            self._launch("gv_pack_worlds", -(-(rows // self.agents) // PACK_ROWS), SMALL_BYTES)

    def before(self) -> None:
        """Pack the weights of the first layer."""
        self._launch("gv_pack_first", self.columns.columns, SMALL_BYTES)

    def first(self, blocks: int) -> list[tuple[str, int]]:
        """See ``SplitKernels``."""
        rows = self.args.rows
        of_rows = [("gv_wide_units", min(blocks, self._parts(rows)))]
        if not self.sizes.shared:
            return of_rows
        return [("gv_world_units", min(blocks, self._parts(rows // self.agents))), *of_rows]

    def last(self) -> list[tuple[str, int]]:
        """See ``SplitKernels``."""
        args = self.args
        of_rows = [("gv_wide_sums", self._tiles_of_agents * args.wide_slices)]
        if not self.sizes.shared:
            return of_rows
        tiles = up_to(args.rows // self.agents, self.sizes.rows) // 16
        return [*of_rows, ("gv_world_deltas", tiles), ("gv_world_sums", self._tiles_of_worlds * args.world_slices)]

    def _parts(self, rows: int) -> int:
        """Return the parts of the columns of all tiles of some rows."""
        return -(-rows // self.sizes.rows) * self.columns.parts


def stash_room(sizes: Sizes, num_rows: int, agents: int = 1) -> int:
    """Return the rows of the arrays between kernels on CUDA, for minibatches of some rows."""
    unit = sizes.rows * agents
    return min(up_to(num_rows, sizes.rows), max(1, ROOM["cuda"] // unit) * unit)
