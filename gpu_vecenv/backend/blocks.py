"""Lanes and worlds of a CUDA block. Results do not depend on them."""

from __future__ import annotations

import os
from typing import NamedTuple

from gpu_vecenv.backend.registers import MULTIPROCESSOR
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.layout import MODULES

SIZES = ("32", "64", "128", "256", "512", "1024")
"""Values of ``GPU_VECENV_BLOCK_SIZE``."""

STEP_BLOCK, ROLLOUT_BLOCK = 128, 768
"""Threads of a block of single-agent worlds. Rollouts use the largest block for which a multiprocessor has registers: the warps
of a block do each step at the same time, so that they write one long run of memory."""


SHARED_FLOATS = 12288
"""Floats of shared memory of a block."""


class Blocks(NamedTuple):
    """Blocks of the kernels of one module.

    Attributes:
        lanes: threads that step one world.
        teams: maximum number of worlds in a block.
        spreads: True if each launch chooses the worlds in a block, to load all multiprocessors equally.
    """

    lanes: int
    teams: int
    spreads: bool = False

    def grid(self, num_worlds: int, multiprocessors: int) -> tuple[int, int]:
        """Return the number of blocks and the threads of a block for a launch over all worlds."""
        teams = rollout_block(num_worlds, self.teams, multiprocessors) if self.spreads else self.teams
        return -(-num_worlds // teams), self.lanes * teams


def blocks_of(work: int, module: int, requested: int = 1, registers: int | None = None) -> Blocks:
    """Return the blocks of a module. Worlds of up to 32 lanes share a block; a larger world has its own.

    A world has a lane for each element of its work, which are its agents if its spec names nothing else, up to 256, or the lanes
    that its spec requests if they are more. With more than 256 elements a lane has several. ``GPU_VECENV_BLOCK_SIZE`` sets the
    threads of a block. The limit is 256 if worlds of 2 to 32 lanes share the block, because they also share its shared memory.

    Args:
        work: elements that lanes share, ``Layout.work``.
        module: index into ``MODULES``.
        requested: lanes that the spec requests for a world.
        registers: most registers of a thread that the spec requests. Rollouts of single-agent worlds then have blocks of which a
            multiprocessor holds one.

    Raises:
        ParameterError: the variable is not one of ``SIZES``.
    """
    block_size = os.environ.get("GPU_VECENV_BLOCK_SIZE")
    if block_size is not None and block_size not in SIZES:
        raise ParameterError(f"GPU_VECENV_BLOCK_SIZE must be a power of two from 32 to 1024, got {block_size!r}.")
    lanes = max(work, requested)
    if lanes == 1:
        rollouts = "gv_rollout" in MODULES[module]
        most = ROLLOUT_BLOCK if registers is None else min(ROLLOUT_BLOCK, MULTIPROCESSOR // registers // 32 * 32)
        return Blocks(1, int(block_size or (most if rollouts else STEP_BLOCK)), spreads=rollouts and block_size is None)
    if lanes <= 32:
        lanes = 1 << (lanes - 1).bit_length()
        return Blocks(lanes, min(int(block_size or 128), 256) // lanes)
    return Blocks(int(block_size) if block_size else -(-min(lanes, max(256, requested)) // 32) * 32, 1)


def rollout_block(num_worlds: int, most: int, multiprocessors: int) -> int:
    """Return the threads of a block, a multiple of 32 up to ``most``, with which a rollout loads all multiprocessors equally.

    If all worlds fit in one block for each multiprocessor, each has one block. Otherwise the number of blocks is a multiple of
    two for each multiprocessor, so that one block starts while another ends.
    """
    rounds = -(-num_worlds // (multiprocessors * most))
    blocks = multiprocessors * (rounds if rounds == 1 else 2 * rounds)
    return 32 * -(-num_worlds // (32 * blocks))


def with_scratch(blocks: Blocks, scratch: int) -> Blocks:
    """Return blocks of as many worlds as have room in the 48 KiB of shared memory of a block.

    Each team also has 32 partial sums, and time and flags, which take two floats. Sizes are padded to an odd number of spans, as
    in ``kernels/target/cuda_entry.h``. Memory of a team of one lane is not shared.

    Args:
        blocks: blocks by the number of lanes alone.
        scratch: floats of scratch of a team, at most ``MAX_SCRATCH``.
    """
    span = min(max(blocks.lanes, 4), 32)
    floats = sum((-(-size // span) | 1) * span for size in (32, scratch)) + 2
    teams = blocks.teams
    while blocks.lanes > 1 and teams * floats > SHARED_FLOATS:
        teams //= 2
    return blocks._replace(teams=teams)
