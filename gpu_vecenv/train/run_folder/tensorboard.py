"""Writes metrics to TensorBoard, with world steps on the x axis."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoard:
    """Writes event files. The first ``flush()`` makes one, so that a run does not wait for the package before it learns."""

    def __init__(self, folder: Path, first_steps: int) -> None:
        """Make the folder of the event file.

        Args:
            folder: folder of the event files.
            first_steps: world steps already done; TensorBoard hides the points of later ones, from an interrupted run.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._first_steps = folder, first_steps
        self._early: list[tuple[int, dict[str, float]]] = []  # points from before the event file
        self._writer: Any = None

    def log(self, metrics: Mapping[str, float]) -> None:
        """Add a point to the curve of each number; NaN adds none."""
        steps, values = int(metrics["steps"]), {name: x for name, x in metrics.items() if not math.isnan(x)}
        if self._writer is None:
            self._early.append((steps, values))
        else:
            self._write(steps, values)

    def _write(self, steps: int, values: Mapping[str, float]) -> None:
        # One event of all numbers takes a tenth of the time of one add_scalar() for each.
        summary = self._summary(value=[self._summary.Value(tag=name, simple_value=x) for name, x in values.items()])
        self._writer.file_writer.add_summary(summary, steps)

    def flush(self) -> None:
        """Write all points to the event file."""
        if self._writer is None and self._folder.is_dir():  # a folder that was removed must not come back
            self._open()
        if self._writer is not None:
            self._writer.flush()

    def _open(self) -> None:
        """Make the event file. The package is imported here only, because its import takes tenths of a second."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from torch.utils.tensorboard import SummaryWriter

        self._summary = Summary
        self._writer = SummaryWriter(str(self._folder), purge_step=self._first_steps + 1)
        for steps, values in self._early:
            self._write(steps, values)
        self._early.clear()

    def close(self) -> None:
        """Write all points and close the event file."""
        self.flush()
        if self._writer is not None:
            self._writer.close()


def is_installed() -> bool:
    """True if the package ``tensorboard`` is installed; it is not imported."""
    return importlib.util.find_spec("tensorboard") is not None
