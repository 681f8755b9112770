"""Display of a task's progress: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import datetime
import importlib.util
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from gpu_vecenv.heartbeat import Heartbeat

if TYPE_CHECKING:
    from rich.console import OverflowMethod
    from rich.live import Live

PLAIN_INTERVAL_S = 5.0
"""Seconds between two plain lines."""
TERMINAL_INTERVAL_S = 0.25
"""Seconds between two drawings on a terminal."""
BAR_WIDTH = 20


class Progress:
    """Shows the fraction done, counts and the time left. Use as a context manager.

    A terminal gets two lines that are redrawn in place: bar, percentage, counts and time left; below them a note, cut
    at the terminal's width. A pipe, a file and a terminal that cannot move its cursor get a plain line every few seconds. If
    there are no news for some time, as while kernels are compiled, the display says so.
    """

    def __init__(self, output: TextIO, quiet: bool = False, task: str = ""):
        """Set the display up; entering the context starts it.

        Args:
            output: standard output for a log, standard error for commands that print results to standard output.
            quiet: write nothing.
            task: text to show until the first state is shown.
        """
        self.output = output
        self.quiet = quiet
        self._last = (0.0, task, "")
        self._heartbeat = Heartbeat(self._wait)
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._origin: tuple[float, float] | None = None
        self._state: tuple[float, str, str] | None = None

    def __enter__(self) -> Progress:
        """Start the clock."""
        self._started = self._shown = time.monotonic()
        if not self.quiet:
            self._live = _open_live(self.output)
            self._heartbeat.__enter__()
            if self._last[1]:
                self._draw(*self._last)
        return self

    def __exit__(self, *_: object) -> None:
        """Show the last state, and leave it on the screen."""
        self._heartbeat.__exit__()
        self._write()
        if self._live is not None:
            self._live.stop()

    def rate(self, count: float) -> float:
        """Return ``count`` over the seconds since the start."""
        return count / max(time.monotonic() - self._started, 1e-9)

    @property
    def due(self) -> bool:
        """True if ``show()`` would draw now: the last drawing is some time ago, and the display is not quiet."""
        interval = PLAIN_INTERVAL_S if self._live is None else TERMINAL_INTERVAL_S
        return not self.quiet and time.monotonic() - self._shown >= interval

    def show(self, fraction: float, counts: str, note: str = "") -> None:
        """Show the state now, or in a later call if the last drawing was too recent.

        Args:
            fraction: fraction of the task that is done, 0 to 1.
            counts: what is done, such as ``1,000 steps  50 steps/s``.
            note: further text of any length.
        """
        if self.quiet:
            return
        now = time.monotonic()
        if self._origin is None:
            self._origin = (now, fraction)
        self._state = (fraction, f"{int(100 * fraction):3}%  {counts}{self._time_left(now, fraction)}", note)
        if self.due:
            self._shown = now
            self._write()

    def _write(self) -> None:
        """Draw the state, unless it has been drawn."""
        if self._state is None:
            return
        self._last, self._state = self._state, None
        self._heartbeat.news()
        self._draw(*self._last)

    def _wait(self, seconds: float) -> None:
        """Say that the last state has not changed for some time; the heartbeat's thread calls this."""
        fraction, line, _ = self._last
        self._draw(fraction, line, f"still at work, {seconds:.0f} s since the last news")

    def _draw(self, fraction: float, line: str, note: str) -> None:
        with self._lock:
            if self._live is None:
                print("  ".join(filter(None, (line, note))), file=self.output, flush=True)
            else:
                _draw(self._live, fraction, line, note)

    def _time_left(self, now: float, fraction: float) -> str:
        """Estimate the time left from the progress since the first call; a resumed run starts above 0."""
        began, before = self._origin or (now, fraction)
        if not before < fraction < 1.0:
            return ""
        seconds = (now - began) * (1.0 - fraction) / (fraction - before)
        return f"  {datetime.timedelta(seconds=round(seconds))} left"


def _open_live(output: TextIO) -> Live | None:
    """Return a started display; None without a terminal, without rich, or if the cursor cannot move."""
    if not output.isatty() or importlib.util.find_spec("rich") is None:
        return None
    from rich.console import Console
    from rich.live import Live

    console = Console(file=output)
    if not console.is_interactive:  # TERM=dumb
        return None
    # Other output to the terminal goes above the display.
    out, error = sys.stdout.isatty(), sys.stderr.isatty()
    live = Live(console=console, auto_refresh=False, redirect_stdout=out, redirect_stderr=error)
    live.start()
    console.show_cursor()  # Live hides it, and a killed process could not show it again.
    return live


def _draw(live: Live, fraction: float, line: str, note: str) -> None:
    """Redraw the two lines; the bar shrinks if the first line is too narrow."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    overflow: OverflowMethod = "crop" if live.console.options.ascii_only else "ellipsis"
    first = Table.grid(padding=(0, 1))
    first.add_column(max_width=BAR_WIDTH)
    first.add_column(no_wrap=True, overflow=overflow)
    first.add_row(ProgressBar(total=1.0, completed=fraction), line)
    live.update(Group(first, Text(note, no_wrap=True, overflow=overflow)), refresh=True)
