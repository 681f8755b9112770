"""Writes metrics to ``metrics.jsonl``, one JSON object an iteration."""

from __future__ import annotations

import itertools
import math
import os
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpu_vecenv.atomic_file import atomic_file, name_in_errors
from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint
from gpu_vecenv.train.run_folder.metrics import metrics_line, read_metrics

FLUSH_S = 0.5
"""Seconds after which a line is handed to the system, so that others can read it."""

MAX_GAPS = 5
"""Most ranges of missing iterations that a warning names."""


class JsonLines:
    """Appends lines to a file; lines of iterations that will run again are removed first."""

    def __init__(self, path: Path, first_iteration: int) -> None:
        """Open the file; its folder exists. If lines of iterations already done are missing, a warning names the iterations.

        Args:
            path: the file.
            first_iteration: iterations already done; lines of later ones, from an interrupted run, are removed.

        Raises:
            MetricsError: the file is damaged; it is unchanged.
            OSError: the file cannot be written.
        """
        in_use = path.exists() or has_checkpoint(path.parent)  # a run may go on in another folder, where it begins a new file
        gaps = _gaps(keep_until(path, first_iteration), first_iteration)
        if gaps and in_use:
            warnings.warn(
                f"{path}: expected a line of each iteration up to {first_iteration}, that of the checkpoint, got none of "
                f"{', '.join(gaps)}; the run goes on, and its curves have no points there",
                stacklevel=2,
            )
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


def keep_until(path: Path, iteration: int) -> list[int]:
    """Remove the lines of later iterations, and a line that a crash cut short. A file without such lines is not written.

    Returns:
        The iterations whose lines the file holds now.

    Raises:
        MetricsError: the file is damaged; it is unchanged.
        OSError: the file cannot be written; it is unchanged.
    """
    if not path.exists():
        return []
    metrics, text = read_metrics(path), path.read_text(encoding="utf-8")
    lines = zip(text.split("\n")[: len(metrics)], metrics, strict=True)
    remaining = [(line, m["iteration"] or 0) for line, m in lines if (m["iteration"] or 0) <= iteration]
    new = "".join(line + "\n" for line, _ in remaining)
    if new != text:
        with atomic_file(path) as partial:
            partial.write_text(new, encoding="utf-8")
    return [int(number) for _, number in remaining]


def _gaps(present: Iterable[int], last: int) -> list[str]:
    """Return the ranges of iterations from 1 to ``last`` that are not present, as words; of many, the first ones and a count."""
    ends = [0, *sorted({k for k in present if k >= 1}), last + 1]
    gaps = [(a + 1, b - 1) for a, b in itertools.pairwise(ends) if b - a > 1]
    words = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in gaps[:MAX_GAPS]]
    return words + [f"{len(gaps) - MAX_GAPS:,} other ranges"] * (len(gaps) > MAX_GAPS)
