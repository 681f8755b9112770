"""What an env asks of a back end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from gpu_vecenv.backend.memory import Memory

Largest = Callable[[int, int, int], int]
"""The largest of indices in host memory, read without their signs: from their address, number and bytes each."""


class Backend(Protocol):
    """Kernels of one env on one device."""

    device: str
    memory: Memory
    """Where state lives."""
    largest: Largest | None
    """None on CUDA."""

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Run one of ``layout.KERNELS`` over all worlds with the argument struct ``args``."""

    def capturing(self) -> bool:
        """Whether launches are being recorded into a CUDA graph."""

    def may_wait(self) -> bool:
        """Whether the host may wait for the device, which would break a CUDA graph that is being recorded."""

    def close(self) -> None:
        """Release threads."""
