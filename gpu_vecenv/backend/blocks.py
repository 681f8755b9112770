"""How worlds are shared out over the blocks of a grid on CUDA. Results do not depend on it."""

from __future__ import annotations

import os
from typing import NamedTuple

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.layout import PARTS

SIZES = ("32", "64", "128", "256", "512", "1024")
"""What ``GPU_VECENV_BLOCK_SIZE`` may be."""

STEP_BLOCK, ROLLOUT_BLOCK = 128, 768
"""Threads of a block of worlds of one agent. The block of a rollout is the largest that a multiprocessor has registers for, or
one of fewer: its warps go step by step together, so that what they write is one long run."""


class Blocks(NamedTuple):
    """Blocks of the kernels of one of ``layout.PARTS``.

    Attributes:
        lanes: threads that step one world.
        teams: worlds that share a block, at most.
        spreads: whether a launch chooses how many, up to ``teams``.
    """

    lanes: int
    teams: int
    spreads: bool = False

    def grid(self, num_worlds: int, multiprocessors: int) -> tuple[int, int]:
        """(blocks, threads of a block) of a launch over all worlds."""
        teams = rollout_block(num_worlds, self.teams, multiprocessors) if self.spreads else self.teams
        return -(-num_worlds // teams), self.lanes * teams


def blocks_of(num_agents: int, part: int) -> Blocks:
    """Small worlds share a block, larger ones take one, the largest stride over it.

    ``GPU_VECENV_BLOCK_SIZE`` sets the threads of a block, up to 256 where worlds of several agents share it, as each of them
    has its part of the block's shared memory.

    Raises:
        ParameterError: another size than one of ``SIZES``.
    """
    given = os.environ.get("GPU_VECENV_BLOCK_SIZE")
    if given is not None and given not in SIZES:
        raise ParameterError(f"GPU_VECENV_BLOCK_SIZE must be a power of two from 32 to 1024, got {given!r}.")
    if num_agents == 1:
        rollouts = "gv_rollout" in PARTS[part]
        return Blocks(1, int(given or (ROLLOUT_BLOCK if rollouts else STEP_BLOCK)), spreads=rollouts and given is None)
    if num_agents <= 32:
        lanes = 1 << (num_agents - 1).bit_length()
        return Blocks(lanes, min(int(given or 128), 256) // lanes)
    return Blocks(int(given) if given else min(256, -(-num_agents // 32) * 32), 1)


def rollout_block(num_worlds: int, most: int, multiprocessors: int) -> int:
    """Threads of a block, a multiple of 32 up to ``most``, with which a rollout loads all multiprocessors alike.

    Worlds that fit all at once are one block to a multiprocessor. More of them come in rounds of two blocks, of which one
    begins while the other ends.
    """
    rounds = -(-num_worlds // (multiprocessors * most))
    blocks = multiprocessors * (rounds if rounds == 1 else 2 * rounds)
    return 32 * -(-num_worlds // (32 * blocks))


def resident_blocks(threads: int) -> int:
    """Blocks that a multiprocessor must have room for, which bounds the registers of a thread.

    More blocks hide more of each other's waits; fewer leave registers to large worlds, for their lists of neighbours. These
    bounds were the fastest on an H100 for steps and for rollouts: 56 registers up to 128 threads, 80 above. Turing, whose
    multiprocessors hold 1,024 threads, ignores the first.
    """
    return max(1, (1152 if threads <= 128 else 768) // threads)
