"""Launches of an update whose first layer streams through the memory of a block: ``kernels/learner/wide.h``."""

from __future__ import annotations

import torch

from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.kernels import empty_halves
from gpu_vecenv.train.fused.split import SplitKernels
from gpu_vecenv.train.fused.tile_plan import PACK_ROWS, Sizes
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.processes.group import Processes


class WideKernels(SplitKernels):
    """Kernels for one policy and one size of minibatches.

    Attributes:
        packed_rows: normal features of all rows of a rollout, numbers of 16 bits.
    """

    def __init__(
        self, policy: ActorCritic, sizes: Sizes, config: PPOConfig, adam: MaskedAdam, num_rows: int, alone: bool = True,
        processes: Processes | None = None, *, all_rows: int,
    ) -> None:  # fmt: skip
        """Allocate the arrays; see ``UpdateKernels``.

        Args:
            policy, sizes, config, adam, num_rows, alone, processes: see ``UpdateKernels``.
            all_rows: rows of a rollout.
        """
        super().__init__(policy, sizes, config, adam, num_rows, alone, processes)
        self.columns, (shared, agents) = sizes.stream(2), sizes.part_columns
        self.packed_rows = empty_halves(all_rows, agents, device=self.device)
        self.call.set(
            all_rows=all_rows, packed_rows=self.packed_rows,
            packed_weights=empty_halves(self.columns.columns, shared + agents, device=self.device),
            packed_biases=torch.empty(self.columns.columns, dtype=torch.float32, device=self.device),
            wide_slices=self.slices(self._wide_tiles),
        )  # fmt: skip

    @property
    def _wide_tiles(self) -> int:
        """Tiles of the gradient of the first layer."""
        return self.columns.parts * self.sizes.feature_parts[1]

    def begin(self) -> None:
        """Also pack the features of the rollout."""
        super().begin()
        self._launch("gv_pack_rows", -(-self.args.all_rows // PACK_ROWS), self.sizes.update_memory.shared_bytes)

    def before(self) -> None:
        """Pack the weights of the first layer."""
        self._launch("gv_pack_weights", self.columns.columns, self.sizes.update_memory.shared_bytes)

    def first(self, blocks: int) -> list[tuple[str, int]]:
        """See ``SplitKernels``."""
        return [("gv_wide_units", min(blocks, -(-self.args.rows // self.sizes.rows) * self.columns.parts))]

    def last(self) -> list[tuple[str, int]]:
        """See ``SplitKernels``."""
        return [("gv_wide_sums", self._wide_tiles * self.args.wide_slices)]
