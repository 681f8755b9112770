"""How many lanes, worlds and floats of scratch a block has on CUDA. Results do not depend on it."""

from __future__ import annotations

import os
from typing import NamedTuple

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.layout import MAX_SCRATCH, MODULES, Layout

SIZES = ("32", "64", "128", "256", "512", "1024")
"""Values of ``GPU_VECENV_BLOCK_SIZE``."""

STEP_BLOCK, ROLLOUT_BLOCK = 128, 768
"""Threads of a block of single-agent worlds. A rollout takes up to as many as a multiprocessor has registers for: the warps of a
block go through the steps together, so that they write one long run of memory."""


class Blocks(NamedTuple):
    """Blocks of the kernels of one module.

    Attributes:
        lanes: threads that step one world.
        teams: most worlds that share a block.
        spreads: True if a launch chooses how many worlds share a block.
    """

    lanes: int
    teams: int
    spreads: bool = False

    def grid(self, num_worlds: int, multiprocessors: int) -> tuple[int, int]:
        """Number of blocks, and threads of a block, of a launch over all worlds."""
        teams = rollout_block(num_worlds, self.teams, multiprocessors) if self.spreads else self.teams
        return -(-num_worlds // teams), self.lanes * teams


def blocks_of(num_agents: int, module: int) -> Blocks:
    """Worlds of up to 32 agents share a block, larger worlds have one each; in the largest a lane has several agents.

    ``GPU_VECENV_BLOCK_SIZE`` sets the threads of a block, up to 256 if worlds of several agents share it, because they share its
    shared memory as well.

    Raises:
        ParameterError: the variable is not one of ``SIZES``.
    """
    given = os.environ.get("GPU_VECENV_BLOCK_SIZE")
    if given is not None and given not in SIZES:
        raise ParameterError(f"GPU_VECENV_BLOCK_SIZE must be a power of two from 32 to 1024, got {given!r}.")
    if num_agents == 1:
        rollouts = "gv_rollout" in MODULES[module]
        return Blocks(1, int(given or (ROLLOUT_BLOCK if rollouts else STEP_BLOCK)), spreads=rollouts and given is None)
    if num_agents <= 32:
        lanes = 1 << (num_agents - 1).bit_length()
        return Blocks(lanes, min(int(given or 128), 256) // lanes)
    return Blocks(int(given) if given else min(256, -(-num_agents // 32) * 32), 1)


def rollout_block(num_worlds: int, most: int, multiprocessors: int) -> int:
    """Threads of a block, a multiple of 32 up to ``most``, with which a rollout loads all multiprocessors equally.

    If all worlds fit at once, each multiprocessor has one block. Otherwise blocks come in rounds of two a multiprocessor, so that
    one starts while the other ends.
    """
    rounds = -(-num_worlds // (multiprocessors * most))
    blocks = multiprocessors * (rounds if rounds == 1 else 2 * rounds)
    return 32 * -(-num_worlds // (32 * blocks))


def resident_blocks(threads: int) -> int:
    """Blocks that a multiprocessor must have room for, which bounds the registers of a thread.

    More blocks hide more memory latency; fewer leave registers for the neighbour lists of large worlds. These bounds were the
    fastest on an H100 for steps and for rollouts: 56 registers up to 128 threads, 80 above. Turing, whose multiprocessors hold
    1,024 threads, ignores the first.
    """
    return max(1, (1152 if threads <= 128 else 768) // threads)


def scratch_floats(layout: Layout, blocks: Blocks) -> int:
    """Floats of scratch a team: as many as the spec would like, up to what the block's 48 KiB of shared memory leave.

    Each team also has 32 partial sums. Sizes are padded to an odd number of spans, as in ``kernels/target/cuda_entry.h``.
    """
    wish = layout.spec.scratch(layout.params) if layout.spec.scratch else 1
    if blocks.lanes == 1:
        return min(wish, MAX_SCRATCH)  # local memory
    span = min(max(blocks.lanes, 4), 32)
    sums = (-(-32 // span) | 1) * span
    most = (((12288 // blocks.teams - sums) // span - 1) | 1) * span
    return min(wish, most)
