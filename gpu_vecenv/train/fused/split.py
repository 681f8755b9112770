"""Launches of an update whose networks are split: ``kernels/learner/split_gradient.cu``."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.kernels import SMALL_BYTES, UpdateKernels, empty_halves, multiprocessors
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
        agents: rows of a sample.
        room: rows of the arrays between kernels.
        stash: these arrays: features, then those of the actor and of the critic.
        allowed: int32 (samples, words), masks of all samples for an actor with many heads as bits; None without masks.
        kinds: int32 (samples,), first chunk of heads with an allowed choice; None without masks.
        computed: int32 (tiles, chunks), 1 if derivatives of an actor with many heads are computed, of a part of a minibatch.
        packed: weights of the last layer of an actor with many heads, high and low parts of 16 bits.
    """

    agents: int = 1

    def __init__(
        self, policy: ActorCritic, sizes: Sizes, config: PPOConfig, adam: MaskedAdam, num_rows: int, alone: bool = True,
        processes: Processes | None = None,
    ) -> None:  # fmt: skip
        """Allocate the arrays; see ``UpdateKernels``."""
        super().__init__(policy, sizes, config, adam, num_rows, alone, processes)
        sizes = self.sizes  # those of an update
        self.room = min(-(-num_rows // sizes.rows) * sizes.rows, self.most_room())
        self.stash = empty_halves(sizes.stash_columns * self.room, device=self.device)
        self._tiles = sizes.num_gradient_tiles
        self.allowed: Tensor | None = None
        self.kinds: Tensor | None = None
        self.packed = empty_halves(sizes.packed_halves, device=self.device)
        self.computed = torch.empty(self.room // sizes.rows, len(sizes.chunks), dtype=torch.int32, device=self.device)
        self.call.set(computed=self.computed)
        self.call.set(room=self.room, slices=self.slices(self._tiles), stash=self.stash, packed=self.packed)

    def slices(self, tiles: int) -> int:
        """Return the slices of rows, so that tiles of the gradient fill the GPU; each slice has sums of its own."""
        slices = CPU_SLICES
        if self.device.type == "cuda":
            slices = multiprocessors(self.device) * self.sizes.update_memory.resident // tiles
        return max(1, min(slices, int(self.args.actor_blocks)))

    def pack_masks(self, num_samples: int) -> None:
        """See ``UpdateKernels.pack_masks()``."""
        if self.args.mask.at and self.sizes.mask_words:
            if self.allowed is None:
                self.allowed = torch.empty(num_samples, self.sizes.mask_words, dtype=torch.int32, device=self.device)
                self.kinds = torch.empty(num_samples, dtype=torch.int32, device=self.device)
            self.call.set(allowed=self.allowed, kinds=self.kinds, num_samples=num_samples)
            self._launch("gv_pack_masks", -(-num_samples // self.sizes.rows), SMALL_BYTES)

    def arranged(self, shuffled: Tensor) -> Tensor:
        """See ``UpdateKernels.arranged()``."""
        if self.kinds is None or not self.policy.group.effects:
            return shuffled
        of_samples = self.kinds.view(-1, self.agents)[:, 0]  # of a world, those of its first agent
        kinds = torch.where(shuffled < 0, len(self.sizes.chunks) + 1, of_samples[shuffled.clamp(min=0).long()])
        return shuffled.gather(-1, kinds.argsort(dim=-1, stable=True))

    def gradient(self, samples: Tensor, minibatch: int = 0) -> None:
        """See ``UpdateKernels.gradient()``."""
        self.call.set(samples=samples)
        args, shared_bytes = self.args, self.sizes.update_memory.shared_bytes
        blocks, sums = args.actor_blocks + args.critic_blocks, self._tiles * args.slices
        rows = args.rows
        if self.sizes.head_columns:
            self._launch("gv_pack_heads", blocks, SMALL_BYTES)
        self.before()
        for first in range(0, rows, self.room):
            args.samples = samples.data_ptr() + 4 * first
            args.rows, args.adds = min(self.room, rows - first), int(first > 0)
            upper = [("gv_deltas", blocks), *([] if self.sizes.team_sums else [("gv_weight_sums", sums)])]
            for name, teams in (*self.first(blocks), *upper, *self.last()):
                self._launch(name, teams, SMALL_BYTES if name == "gv_world_deltas" else shared_bytes)
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
