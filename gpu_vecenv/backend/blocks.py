"""Lanes, worlds and floats of scratch of a CUDA block. Results do not depend on them."""

from __future__ import annotations

import os
from typing import NamedTuple

from gpu_vecenv.backend.registers import MULTIPROCESSOR
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.layout import MAX_SCRATCH, MODULES, Layout

SIZES = ("32", "64", "128", "256", "512", "1024")
"""Values of ``GPU_VECENV_BLOCK_SIZE``."""

STEP_BLOCK, ROLLOUT_BLOCK = 128, 768
"""Threads of a block of single-agent worlds. Rollouts use the largest block for which a multiprocessor has registers: the warps
of a block do each step at the same time, so that they write one long run of memory."""


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


def blocks_of(num_agents: int, module: int, requested: int = 1, registers: int | None = None) -> Blocks:
    """Return the blocks of a module. Worlds of up to 32 lanes share a block; a larger world has its own.

    A world has a lane for each agent, up to 256, or the lanes that its spec requests if they are more. In worlds of more than 256
    agents a lane has several agents. ``GPU_VECENV_BLOCK_SIZE`` sets the threads of a block. The limit is 256 if worlds of 2 to 32
    lanes share the block, because they also share its shared memory.

    Args:
        num_agents: agents in a world.
        module: index into ``MODULES``.
        requested: lanes that the spec requests for a world.
        registers: most registers of a thread that the spec requests. Rollouts of single-agent worlds then have blocks of which a
            multiprocessor holds one.

    Raises:
        ParameterError: the variable is not one of ``SIZES``.
    """
    given = os.environ.get("GPU_VECENV_BLOCK_SIZE")
    if given is not None and given not in SIZES:
        raise ParameterError(f"GPU_VECENV_BLOCK_SIZE must be a power of two from 32 to 1024, got {given!r}.")
    lanes = max(num_agents, requested)
    if lanes == 1:
        rollouts = "gv_rollout" in MODULES[module]
        most = ROLLOUT_BLOCK if registers is None else min(ROLLOUT_BLOCK, MULTIPROCESSOR // registers // 32 * 32)
        return Blocks(1, int(given or (most if rollouts else STEP_BLOCK)), spreads=rollouts and given is None)
    if lanes <= 32:
        lanes = 1 << (lanes - 1).bit_length()
        return Blocks(lanes, min(int(given or 128), 256) // lanes)
    return Blocks(int(given) if given else -(-min(lanes, max(256, requested)) // 32) * 32, 1)


def rollout_block(num_worlds: int, most: int, multiprocessors: int) -> int:
    """Return the threads of a block, a multiple of 32 up to ``most``, with which a rollout loads all multiprocessors equally.

    If all worlds fit in one block for each multiprocessor, each has one block. Otherwise the number of blocks is a multiple of
    two for each multiprocessor, so that one block starts while another ends.
    """
    rounds = -(-num_worlds // (multiprocessors * most))
    blocks = multiprocessors * (rounds if rounds == 1 else 2 * rounds)
    return 32 * -(-num_worlds // (32 * blocks))


def scratch_floats(layout: Layout, blocks: Blocks) -> int:
    """Return the floats of scratch of a team: the spec's request, limited by the 48 KiB of shared memory of a block.

    Each team also has 32 partial sums and, if roles have spaces of their own, time and flags, which take two floats. Sizes are
    padded to an odd number of spans, as in ``kernels/target/cuda_entry.h``.
    """
    requested = layout.requested_scratch
    if blocks.lanes == 1:
        return min(requested, MAX_SCRATCH)  # local memory
    span = min(max(blocks.lanes, 4), 32)
    sums = (-(-32 // span) | 1) * span
    progress = 2 if layout.spec.has_role_arrays else 0
    most = (((12288 // blocks.teams - sums - progress) // span - 1) | 1) * span
    return min(requested, most)
