"""Registers of a thread: the usual limits, and larger ones for kernels that spill. Results do not depend on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MULTIPROCESSOR = 65536
"""Registers of a multiprocessor."""

LARGER = (64, 72, 80)
"""Limits for kernels that spill under the usual one, with which a multiprocessor has 1,024, 896 and 768 threads; under the usual
limit of blocks of more than 128 threads it has 768, too. More limits would take more time to compile."""


FEW = 16
"""Bytes of local memory that cost less than the threads that a larger limit leaves out. On an H100, rollouts of Tag with full
observations and 16 bytes took 1.36 times as long with 64 registers. On an H200, five rollouts with 24 and 32 bytes took 1.01 to
1.27 times as long as with the limit under which they spill nothing.
"""


class Report(NamedTuple):
    """Numbers of a compiled kernel.

    Attributes:
        registers: registers of a thread.
        local: bytes of local memory of a thread: spilled registers, and arrays.
    """

    registers: int
    local: int


def resident_blocks(threads: int, limit: int | None = None) -> int:
    """Return the number of blocks that a multiprocessor must have room for, which limits the registers of a thread.

    More blocks hide more memory latency; fewer blocks leave more registers for the neighbour lists of large worlds. The usual
    limits were the fastest on an H100 for steps and for rollouts: 56 registers in blocks of up to 128 threads, 80 in larger
    ones. Turing, whose multiprocessors hold 1,024 threads, ignores the first.

    Args:
        threads: threads of a block.
        limit: most registers of a thread; None for the usual limit.
    """
    if limit is None:
        return max(1, (1152 if threads <= 128 else 768) // threads)
    return max(1, MULTIPROCESSOR // (limit * threads))


def usual_limit(threads: int) -> int:
    """Return the registers that a thread may use under the usual limit."""
    return MULTIPROCESSOR // (resident_blocks(threads) * threads) // 8 * 8


def choose_limit(report: Callable[[int | None], Report], threads: int) -> int | None:
    """Return the limit for a kernel; None for the usual one, which all kernels have that spill little or nothing under it.

    A kernel that spills uses all registers that it may, and has local memory. With more than ``FEW`` bytes of it, it gets the
    smallest limit of ``LARGER`` with which it needs no local memory, or least.

    Args:
        report: compiles the kernel with a limit, None for the usual one, and returns its numbers.
        threads: threads of a block.
    """
    usual = usual_limit(threads)
    first, best = report(None), None
    if first.registers < usual or first.local <= FEW:
        return None
    for limit in LARGER:
        if limit > usual and first.local > 0:
            tried = report(limit)
            if tried.local < first.local:
                first, best = tried, limit
    return best
