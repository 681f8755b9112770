"""Calls a function when a program has shown nothing for some time, so that no wait looks like a hang."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

SILENCE_S = 10.0
"""Seconds without news after which the function is called, and between two calls."""


class Heartbeat:
    """A thread that calls a function after each ``SILENCE_S`` seconds without news. Use as a context manager.

    Args:
        beat: function to call, in the thread; its argument is the time since the last news, in seconds. An OSError, such as that
            of a closed pipe, ends the thread.
    """

    def __init__(self, beat: Callable[[float], None]) -> None:
        self._beat = beat
        self._over = threading.Event()
        self._news = time.monotonic()

    def __enter__(self) -> Heartbeat:
        """Start the thread, which does not keep the process alive."""
        self.news()
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread soon; the function is not called any more."""
        self._over.set()

    def news(self) -> None:
        """Tell that something was shown just now."""
        self._news = time.monotonic()

    def _run(self) -> None:
        last_beat = 0.0
        with contextlib.suppress(OSError):
            while not self._over.wait(max(0.01, SILENCE_S - (time.monotonic() - max(self._news, last_beat)))):
                now = time.monotonic()
                if now - max(self._news, last_beat) >= SILENCE_S:
                    last_beat = now
                    self._beat(now - self._news)
