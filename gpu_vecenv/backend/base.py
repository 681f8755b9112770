"""What an env asks of a back end."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gpu_vecenv.backend.memory import Memory


class Backend(Protocol):
    """Kernels of one env on one device."""

    device: str
    memory: Memory
    """Where state lives."""

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Run one of ``layout.KERNELS`` over all worlds with the argument struct ``args``."""

    def capturing(self) -> bool:
        """Whether launches are being recorded into a CUDA graph."""

    def close(self) -> None:
        """Release threads."""
