"""Memory of the host that a process may still take."""

from __future__ import annotations

from pathlib import Path

MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def free_host_bytes() -> int | None:
    """Bytes free in the host's memory; None where the system does not tell."""
    found = [free for free in (_available(), _left_of_cgroup()) if free is not None]
    return min(found, default=None)


def _available() -> int | None:
    """What Linux can give to a process without swapping."""
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _left_of_cgroup() -> int | None:
    """Bytes that the limit of a container leaves; None without a limit."""
    try:
        limit = int((CGROUP / "memory.max").read_text())
        return max(0, limit - int((CGROUP / "memory.current").read_text()) + _cached())
    except (OSError, ValueError):
        return None


def _cached() -> int:
    """Files that the container's count holds in memory and gives back when asked."""
    stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    return int(stat.get("inactive_file", 0))
