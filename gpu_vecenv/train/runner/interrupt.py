"""Ctrl-C and SIGTERM as a request to stop, which a loop checks between iterations."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """Context in which the first SIGINT or SIGTERM only sets ``received``; a second one has its usual effect."""

    def __init__(self) -> None:
        """Start without a request."""
        self.received: str | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        """Handle the signals. Python allows this in the main thread only; in other threads nothing changes."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the earlier handlers."""
        self._restore()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
