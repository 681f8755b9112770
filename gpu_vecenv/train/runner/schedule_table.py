"""A table on the device with the settings of algorithms that change over a run, a row for each of the next iterations."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from gpu_vecenv.train.algorithms.contract import Algorithm

TABLE_ROWS = 256
"""Iterations whose settings are uploaded at a time."""


class ScheduleTable:
    """Rows of settings, one for each of the next iterations, and a counter of rows, both on the device.

    Attributes:
        scalars: settings of the present iteration by policy: views of one tensor, whose address never changes.
    """

    def __init__(self, algorithms: Mapping[str, Algorithm], steps: int, device: torch.device) -> None:
        """Allocate the table; ``prepare()`` fills it.

        Args:
            algorithms: algorithm of each policy that learns.
            steps: steps of an iteration, summed over worlds.
            device: device of the run.
        """
        self._algorithms, self._steps = algorithms, steps
        counts = [len(algorithm.scalars_at(0)) for algorithm in algorithms.values()]
        # One column at least, because memory of no bytes cannot be pinned.
        self._table = torch.zeros(TABLE_ROWS, max(1, sum(counts)), dtype=torch.float32, device=device)
        self._row = torch.zeros(1, dtype=torch.int64, device=device)
        self._present = torch.zeros_like(self._table[:1])
        rows = self._present[0, : sum(counts)].split(counts)
        self.scalars = {name: tuple(row) for name, row in zip(algorithms, rows, strict=True)}
        self._next: int | None = None
        self._end = 0

    def prepare(self, iteration: int) -> None:
        """Make ``move()`` take the settings of an iteration, numbered from 0. Upload rows if the device lacks its row."""
        if iteration != self._next or iteration >= self._end:
            self._upload(iteration)
        self._next = iteration + 1

    def move(self) -> None:
        """Copy the present row to ``scalars``, if there are any, and move to the next row. The host does not wait."""
        if not any(self.scalars.values()):
            return
        torch.index_select(self._table, 0, self._row, out=self._present)
        self._row += 1

    def _upload(self, first: int) -> None:
        """Put the settings of ``TABLE_ROWS`` iterations on the device, in order with earlier work of the current stream."""
        rows = [self._settings_of(iteration) for iteration in range(first, first + TABLE_ROWS)]
        on_host = torch.tensor(rows, dtype=torch.float32, device="cpu").view_as(self._table)
        # A new tensor each time, because the device may still read the last one.
        self._table.copy_(on_host.pin_memory() if self._table.is_cuda else on_host, non_blocking=True)
        self._row.zero_()
        self._end = first + TABLE_ROWS

    def _settings_of(self, iteration: int) -> list[float]:
        settings = [x for algorithm in self._algorithms.values() for x in algorithm.scalars_at(iteration * self._steps)]
        return settings or [0.0]
