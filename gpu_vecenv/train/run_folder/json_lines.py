"""Writes metrics to ``metrics.jsonl``, one JSON object an iteration."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path

from gpu_vecenv.atomic_file import atomic_file, name_in_errors
from gpu_vecenv.train.run_folder.metrics import metrics_line, read_metrics

FLUSH_S = 0.5
"""Seconds after which a line is handed to the system, so that others can read it."""


class JsonLines:
    """Appends lines to a file; lines of iterations that will run again are removed first."""

    def __init__(self, path: Path, first_iteration: int) -> None:
        """Open the file; its folder exists.

        Args:
            path: the file.
            first_iteration: iterations already done; lines of later ones, from an interrupted run, are removed.

        Raises:
            MetricsError: the file is damaged; it is unchanged.
            OSError: the file cannot be written.
        """
        keep_until(path, first_iteration)
        self._path = path
        self._file = open(path, "a", encoding="utf-8")
        self._flushed = -math.inf

    def log(self, metrics: Mapping[str, float]) -> None:
        """Append a line. Lines that follow each other quickly reach the file together."""
        with name_in_errors(self._path):
            self._file.write(metrics_line(metrics) + "\n")
            now = time.monotonic()
            if now - self._flushed >= FLUSH_S:
                self._file.flush()
                self._flushed = now

    def flush(self) -> None:
        """Put all lines on the disk: after a power cut, no line before a checkpoint may be missing."""
        with name_in_errors(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Put all lines on the disk and close the file."""
        with name_in_errors(self._path), self._file:
            self.flush()


def keep_until(path: Path, iteration: int) -> None:
    """Remove the lines of later iterations, and a line that a crash cut short. A file without such lines is not written.

    Raises:
        MetricsError: the file is damaged; it is unchanged.
        OSError: the file cannot be written; it is unchanged.
    """
    if not path.exists():
        return
    metrics, text = read_metrics(path), path.read_text(encoding="utf-8")
    lines = text.split("\n")[: len(metrics)]
    kept = "".join(line + "\n" for line, m in zip(lines, metrics, strict=True) if (m["iteration"] or 0) <= iteration)
    if kept != text:
        with atomic_file(path) as partial:
            partial.write_text(kept, encoding="utf-8")
