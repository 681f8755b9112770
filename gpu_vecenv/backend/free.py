"""Memory that an env may still take on a device."""

from __future__ import annotations

from pathlib import Path

MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def free_memory(device: str, kind: str) -> int | None:
    """Bytes free on ``"cpu"`` or ``"cuda:N"``; None where the system does not tell.

    On a GPU this counts what the pool of the array library ``kind`` holds and does not use.
    """
    if device == "cpu":
        found = [free for free in (_available(), _left_of_cgroup()) if free is not None]
        return min(found, default=None)
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    if kind == "cupy":
        import cupy

        with cupy.cuda.Device(int(device.partition(":")[2])):
            return int(free + cupy.get_default_memory_pool().free_bytes())
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def _available() -> int | None:
    """What Linux can give to a process without swapping."""
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _left_of_cgroup() -> int | None:
    """What the limit of a container leaves; None without a limit."""
    try:
        limit = int((CGROUP / "memory.max").read_text())
        return limit - int((CGROUP / "memory.current").read_text()) + _cached()
    except (OSError, ValueError):
        return None


def _cached() -> int:
    """Files that the container's count holds in memory and gives back when asked."""
    stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    return int(stat.get("inactive_file", 0))
