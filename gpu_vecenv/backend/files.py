"""Files that a text was made from, so that it is made again after one of them has changed."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

SETTLED = 2.0
"""Seconds since a file changed from which on each further change has another time; clocks of file systems have coarse ticks."""


class Files:
    """States of some paths before they were read, by ``os.stat()``. A network file system may tell of changes seconds later."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, ...] | None] = {}
        self._settled = True

    def has(self, path: str | Path) -> bool:
        """Remember the state of a path, and return True if it is a plain file."""
        state = self._states[os.fspath(path)] = _state(path)
        if state is None:
            return False
        mode, *_, modified, changed = state
        self._settled &= time.time() - max(modified, changed) / 1e9 > SETTLED
        return stat.S_ISREG(mode)

    def unchanged(self) -> bool:
        """Return True if each path is in the state remembered, so that what was read is still there.

        False as well if one had just changed when it was read.
        """
        return self._settled and all(_state(path) == state for path, state in self._states.items())


def _state(path: str | Path) -> tuple[int, ...] | None:
    """Return numbers that differ after any change of a file but one in the same tick; None without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mode, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
