"""Ctrl-C, SIGTERM and SIGHUP as a request to stop, which a loop checks between iterations."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """Context in which the first signal only sets ``received``; a second SIGINT or SIGTERM has its usual effect.

    A terminal that closes may send SIGHUP twice, once from the system and once from the shell, so a second one changes nothing.
    A signal that the process ignores stays ignored: ``nohup`` starts processes that ignore SIGHUP.
    """

    def __init__(self) -> None:
        """Start without a request."""
        self.received: str | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        """Handle the signals. Python allows this in the main thread only; in other threads nothing changes."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Restore the earlier handlers."""
        self._restore(*self._previous)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or signal.Signals(number).name
        self._restore(signal.SIGINT, signal.SIGTERM)

    def _restore(self, *signal_numbers: int) -> None:
        for number in signal_numbers:
            if number in self._previous:
                signal.signal(number, self._previous.pop(number))
