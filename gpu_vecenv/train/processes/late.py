"""Sums over processes that nobody needs before the end of an iteration, by one call for all of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gpu_vecenv.train.processes.group import Processes


class LateSums:
    """Collects the sums that ``Processes.sum_then()`` is asked for in its blocks, ``with late_sums:``, until ``add_up()``.

    A sum of few numbers takes as long as one of many, so one call for all of them takes a fraction of the time.
    """

    def __init__(self, processes: Processes) -> None:
        """Start with nothing collected."""
        self._processes = processes
        self._waiting: list[tuple[Tensor, Callable[[Tensor], object]]] = []

    def __enter__(self) -> None:
        self._processes.collect = lambda x, use: self._waiting.append((x, use))

    def __exit__(self, *error: object) -> None:
        self._processes.collect = None

    def add_up(self) -> None:
        """Add up what was collected, and hand out the sums in the same order.

        Raises:
            LostRankError: a process is gone.
        """
        if not self._waiting:
            return
        total = self._processes.sum(torch.cat([x.flatten() for x, _ in self._waiting]))
        for part, (x, use) in zip(total.split([x.numel() for x, _ in self._waiting]), self._waiting, strict=True):
            use(part.view(x.shape))
        self._waiting = []
