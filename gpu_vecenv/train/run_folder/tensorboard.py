"""Writes metrics to TensorBoard, with world steps on the x axis."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoard:
    """Writes event files. The package is imported here only, because its import takes a second."""

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

    def log(self, metrics: Mapping[str, float]) -> None:
        """Add a point to the curve of each number; NaN adds none."""
        # One event of all numbers takes a tenth of the time of one add_scalar() for each.
        values = [self._summary.Value(tag=name, simple_value=x) for name, x in metrics.items() if not math.isnan(x)]
        self._file.add_summary(self._summary(value=values), int(metrics["steps"]))

    def flush(self) -> None:
        """Write all points to the event file."""
        self._writer.flush()

    def close(self) -> None:
        """Write all points and close the event file."""
        self._writer.close()


def is_installed() -> bool:
    """True if the package ``tensorboard`` is installed; it is not imported."""
    return importlib.util.find_spec("tensorboard") is not None
