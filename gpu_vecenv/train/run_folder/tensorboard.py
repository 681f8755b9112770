"""Writes metrics to TensorBoard, with world steps on the x axis."""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from gpu_vecenv.atomic_file import name_in_errors

POINT_S = 0.1
"""Seconds between two points of a curve. An event takes half a millisecond of the host, as much as a short iteration or more."""

_file_numbers = itertools.count()
"""Numbers of the event files of this process, which keep the names of two files of one second apart."""


class TensorBoard:
    """Writes event files. The first ``flush()`` of a point makes one, so that no run waits for the package before it learns.

    It writes one iteration each ``POINT_S``, and all iterations with an evaluation. The file is written in the caller's thread:
    the thread of ``SummaryWriter`` prints a traceback of its own if the disk is full.
    """

    def __init__(self, folder: Path, first_steps: int) -> None:
        """Make the folder of the event file.

        Args:
            folder: folder of the event files.
            first_steps: world steps already done; TensorBoard hides the points of later ones, from an interrupted run.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._first_steps = folder, first_steps
        self._points: list[tuple[int, dict[str, float]]] = []  # to be written by the next flush()
        self._latest: Mapping[str, float] | None = None  # an iteration that is no point yet
        self._taken = -math.inf  # time of the last point
        self._usual = sys.maxsize  # numbers of an iteration without an evaluation
        self._file: BinaryIO | None = None

    def log(self, metrics: Mapping[str, float]) -> None:
        """Add a point to the curve of each number; NaN adds none."""
        self._latest, self._usual = metrics, min(self._usual, len(metrics))
        if time.monotonic() - self._taken >= POINT_S or len(metrics) > self._usual:
            self._take()

    def _take(self) -> None:
        """Make a point of the latest iteration, if it is none."""
        metrics, self._latest = self._latest, None
        if metrics is not None:
            self._taken = time.monotonic()
            self._points.append((int(metrics["steps"]), {name: x for name, x in metrics.items() if not math.isnan(x)}))

    def flush(self) -> None:
        """Write all points and the latest iteration to the event file.

        Raises:
            OSError: the file cannot be written.
        """
        self._take()
        if self._file is None and self._points and self._folder.is_dir():  # a folder that was removed must not come back
            self._open()
        if self._file is None:
            return
        with name_in_errors(self._path):
            for steps, values in self._points:
                # One event of all numbers takes a tenth of the time of one event for each.
                summary = self._summary(value=[self._summary.Value(tag=name, simple_value=x) for name, x in values.items()])
                self._write(step=steps, summary=summary)
            self._points.clear()
            self._file.flush()

    def _open(self) -> None:
        """Make the event file. The package is imported here only, because its import takes tenths of a second."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        name = f"events.out.tfevents.{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}.{next(_file_numbers)}"
        self._path = self._folder / name
        self._file = open(self._path, "xb")
        self._records: Any = RecordWriter(self._file)
        start = self._first_steps + 1  # points of an interrupted run from here on are hidden
        self._write(step=start, file_version="brain.Event:2")
        self._write(step=start, session_log=SessionLog(status=SessionLog.START))

    def _write(self, **content: Any) -> None:
        """Write an event to the file; its fields are those of TensorBoard's ``Event``."""
        self._records.write(self._event(wall_time=time.time(), **content).SerializeToString())

    def close(self) -> None:
        """Write all points and close the event file.

        Raises:
            OSError: the file cannot be written.
        """
        try:
            self.flush()
        finally:
            if self._file is not None:
                with name_in_errors(self._path):
                    self._file.close()


def is_installed() -> bool:
    """True if the package ``tensorboard`` is installed; it is not imported."""
    return importlib.util.find_spec("tensorboard") is not None
