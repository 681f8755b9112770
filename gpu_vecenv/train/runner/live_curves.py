"""The curves of a run for its live page."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

MOST = 600
"""Most points of a curve. With more, every second one is left out, and later points come half as often."""

PAUSE_S = 0.5
"""Seconds between two points, at least."""


class LiveCurves:
    """Keeps points of a run's metrics, as a sink."""

    def __init__(self) -> None:
        self._points: list[dict[str, float]] = []
        self._pause, self._next = PAUSE_S, 0.0

    def log(self, metrics: Mapping[str, float]) -> None:
        """Take the metrics of an iteration, if the last point is old enough."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._pause
        self._points.append({name: value for name, value in metrics.items() if math.isfinite(value)})
        if len(self._points) > MOST:
            self._points, self._pause = self._points[::2], 2 * self._pause

    def after(self, iteration: int) -> list[dict[str, float]]:
        """Return the points of later iterations, without values that are not finite."""
        return [point for point in self._points if point["iteration"] > iteration]

    def flush(self) -> None:
        """Do nothing: the points stay in memory."""

    def close(self) -> None:
        """Do nothing: the points end with the run."""
