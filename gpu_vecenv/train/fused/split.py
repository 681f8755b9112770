"""Launches of an update whose networks are split: ``kernels/learner/split_gradient.cu``."""

from __future__ import annotations

from torch import Tensor

from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.kernels import UpdateKernels, empty_halves, multiprocessors
from gpu_vecenv.train.fused.tile_plan import Sizes
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.processes.group import Processes

ROOM = {"cpu": 1024, "cuda": 1 << 18}
"""Most rows that the arrays between kernels have room for. A minibatch with more is computed in parts."""

CPU_SLICES = 2
"""Slices of the rows on the CPU, each with its own sums of the gradient."""


class SplitKernels(UpdateKernels):
    """Kernels for one policy and one size of minibatches.

    Attributes:
        room: rows of the arrays between kernels.
        stash: these arrays: features, then those of the actor and of the critic.
    """

    def __init__(
        self, policy: ActorCritic, sizes: Sizes, config: PPOConfig, adam: MaskedAdam, num_rows: int, alone: bool = True,
        processes: Processes | None = None,
    ) -> None:  # fmt: skip
        """Allocate the arrays; see ``UpdateKernels``."""
        super().__init__(policy, sizes, config, adam, num_rows, alone, processes)
        self.room = min(-(-num_rows // sizes.rows) * sizes.rows, self.most_room())
        self.stash = empty_halves(sizes.stash_columns * self.room, device=self.device)
        self._tiles = sizes.num_gradient_tiles
        self.call.set(room=self.room, slices=self.slices(self._tiles), stash=self.stash)

    def slices(self, tiles: int) -> int:
        """Return the slices of rows, so that tiles of the gradient fill the GPU; each slice has sums of its own."""
        slices = CPU_SLICES
        if self.device.type == "cuda":
            slices = multiprocessors(self.device) * self.sizes.update_memory.resident // tiles
        return max(1, min(slices, int(self.args.actor_blocks)))

    def gradient(self, samples: Tensor, minibatch: int = 0) -> None:
        """See ``UpdateKernels.gradient()``."""
        self.call.set(samples=samples)
        args, shared_bytes = self.args, self.sizes.update_memory.shared_bytes
        blocks, sums = args.actor_blocks + args.critic_blocks, self._tiles * args.slices
        rows = args.rows
        self.before()
        for first in range(0, rows, self.room):
            args.samples = samples.data_ptr() + 4 * first
            args.rows, args.adds = min(self.room, rows - first), int(first > 0)
            for name, teams in (*self.first(blocks), ("gv_deltas", blocks), ("gv_weight_sums", sums), *self.last()):
                self._launch(name, teams, shared_bytes)
        args.rows = rows

    def most_room(self) -> int:
        """Return the most rows that the arrays between kernels have room for."""
        return ROOM[self.device.type]

    def before(self) -> None:
        """Prepare a minibatch."""

    def first(self, blocks: int) -> list[tuple[str, int]]:
        """Return the kernels of the first layer, and their teams."""
        return [("gv_first_units", blocks)]

    def last(self) -> list[tuple[str, int]]:
        """Return the kernels of the first layer's gradient beside ``gv_weight_sums``, and their teams."""
        return []
