"""Start of a run: the import of PyTorch and the trainer, which takes most of the time until the first iteration."""

from __future__ import annotations

import gc
import sys

from gpu_vecenv.heartbeat import Heartbeat
from gpu_vecenv.importing import collector_paused


def import_trainer() -> None:
    """Import the trainer, and keep Python's garbage collector from looking through the objects of modules later on."""
    if "torch" in sys.modules:
        return
    with Heartbeat(_say_importing), collector_paused():
        import gpu_vecenv.train.runner.trainer  # noqa: F401
    gc.freeze()


def _say_importing(seconds: float) -> None:
    """Say that the first import of PyTorch after an installation takes long, because a slow disk reads gigabytes."""
    print(f"importing PyTorch, {seconds:.0f} s", file=sys.stderr, flush=True)
