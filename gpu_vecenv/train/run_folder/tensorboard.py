"""Writes metrics to TensorBoard, with world steps on the x axis."""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

POINT_S = 0.1
"""Seconds between two points of a curve. An event takes half a millisecond of the host, as much as a short iteration or more."""


class TensorBoard:
    """Writes event files. The package is imported here only, because its import takes a second.

    Of iterations that follow each other quickly, it writes those with an evaluation and one each ``POINT_S``.
    """

    def __init__(self, folder: Path, first_steps: int) -> None:
        """Open a new event file.

        Args:
            folder: folder of the event files.
            first_steps: world steps already done; TensorBoard hides the points of later ones, from an interrupted run.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary
        from torch.utils.tensorboard import SummaryWriter

        self._summary = Summary
        self._writer = SummaryWriter(str(folder), purge_step=first_steps + 1)
        self._file: Any = self._writer.file_writer
        self._written = -math.inf
        self._pending: Mapping[str, float] | None = None
        self._usual = sys.maxsize  # numbers of an iteration without an evaluation

    def log(self, metrics: Mapping[str, float]) -> None:
        """Add a point to the curve of each number; NaN adds none."""
        self._pending, self._usual = metrics, min(self._usual, len(metrics))
        if time.monotonic() - self._written >= POINT_S or len(metrics) > self._usual:
            self._write()

    def _write(self) -> None:
        """Write the latest iteration, if it has not been written."""
        metrics, self._pending = self._pending, None
        if metrics is None:
            return
        self._written = time.monotonic()
        # One event of all numbers takes a tenth of the time of one add_scalar() for each.
        values = [self._summary.Value(tag=name, simple_value=x) for name, x in metrics.items() if not math.isnan(x)]
        self._file.add_summary(self._summary(value=values), int(metrics["steps"]))

    def flush(self) -> None:
        """Write all points to the event file, and one of the latest iteration."""
        self._write()
        self._writer.flush()

    def close(self) -> None:
        """Write all points and close the event file."""
        self._write()
        self._writer.close()


def is_installed() -> bool:
    """True if the package ``tensorboard`` is installed; it is not imported."""
    return importlib.util.find_spec("tensorboard") is not None
