"""Imports of many modules."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector. Use it around imports.

    The objects of modules stay. The collector looks through them again and again and finds nothing to free, which takes a sixth
    of the time in which PyTorch is imported.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
