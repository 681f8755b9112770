"""Free memory of the host."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

MEMINFO, CGROUP, STATM = Path("/proc/meminfo"), Path("/sys/fs/cgroup"), Path("/proc/self/statm")


def free_host_bytes() -> int | None:
    """Return the bytes that a process may still take; None if the system does not say."""
    limits = [free for free in (_available(), _left_of_cgroup(), _left_of_process()) if free is not None]
    return min(limits, default=None)


def _available() -> int | None:
    """Bytes that Linux can give to a process without swapping."""
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _left_of_cgroup() -> int | None:
    """Bytes left below the limit of a container; None without a limit."""
    try:
        limit = int((CGROUP / "memory.max").read_text())
        return max(0, limit - int((CGROUP / "memory.current").read_text()) + _cached())
    except (OSError, ValueError):
        return None


def _left_of_process() -> int | None:
    """Bytes left below the limit of this process (``ulimit -v``); None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        return max(0, limit - int(STATM.read_text().split()[0]) * resource.getpagesize())
    except (OSError, ValueError):
        return None


def _cached() -> int:
    """Bytes of cached files, which count against the limit and are freed on demand."""
    stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    return int(stat.get("inactive_file", 0))


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if NumPy, CuPy or torch ran out of memory.

    On the CPU torch raises a plain RuntimeError, so its text is compared.
    """
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return True
    return "torch" in sys.modules and isinstance(error, sys.modules["torch"].OutOfMemoryError)
