"""CUDA streams that runs and trials take in turn, because cuBLAS keeps workspaces for each stream that it has seen."""

from __future__ import annotations

import torch

from gpu_vecenv.backend.select import choose_device


class Streams:
    """CUDA streams, each for one run at a time."""

    def __init__(self) -> None:
        self._free: dict[str, list[torch.cuda.Stream]] = {}

    def take(self, device: str) -> torch.cuda.Stream | None:
        """Return a stream of a device that no run has; None for the CPU.

        Args:
            device: as in ``TrainConfig.device``.

        Raises:
            DeviceError, ParameterError: the device does not exist or does not work.
        """
        name = choose_device(device)
        if name == "cpu":
            return None
        try:
            return self._free.setdefault(name, []).pop()
        except IndexError:  # none is free; another thread may have taken the last one
            return torch.cuda.Stream(name)

    def give_back(self, stream: torch.cuda.Stream | None) -> None:
        """Take a stream back for the next run."""
        if stream is not None:
            self._free[str(stream.device)].append(stream)
