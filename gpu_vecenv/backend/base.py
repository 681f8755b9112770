"""Interface of back ends: the kernels of one env on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from gpu_vecenv.backend.memory import Memory

MaxIndex = Callable[[int, int, int], int]
"""Maximum of indices in host memory, read as unsigned integers, from their address, their number and their type: the bytes
of one, negative for int8."""


class Backend(Protocol):
    """Kernels of one env on one device.

    Attributes:
        device: ``"cpu"`` or ``"cuda:N"``.
        memory: memory of the state.
        max_index: a function of the CPU's kernels; None on CUDA.
    """

    device: str
    memory: Memory
    max_index: MaxIndex | None

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Run one of ``layout.KERNELS`` over all worlds with the argument struct ``args``."""

    def capturing(self) -> bool:
        """Return True if launches are being recorded into a CUDA graph."""

    def may_wait(self) -> bool:
        """Return False if a CUDA graph is being recorded, which the host would break if it waited for the device."""

    def close(self) -> None:
        """Stop threads."""
