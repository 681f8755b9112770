"""The line of a caller outside this package, for warnings."""

from __future__ import annotations

import sys


def level_of_caller() -> int:
    """Return the ``stacklevel`` with which ``warnings.warn`` in the calling function shows a line outside this package."""
    level, frame = 0, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("gpu_vecenv."):
        level, frame = level + 1, frame.f_back
    return level
