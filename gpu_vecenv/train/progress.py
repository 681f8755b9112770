"""Says how far a task is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import datetime
import importlib.util
import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import OverflowMethod
    from rich.live import Live

PLAIN_INTERVAL_S = 5.0
"""Seconds between two lines where there is no terminal to redraw."""
TERMINAL_INTERVAL_S = 0.1
"""Seconds between two drawings on a terminal."""
BAR_WIDTH = 20


class Progress:
    """Shows a share, counts and the time left. Use as a context manager.

    A terminal gets two lines that are redrawn in place: bar, percentage, counts and time left; below them a note, cut
    where the terminal ends. A pipe, a file and a terminal that cannot move its cursor get a plain line every few seconds.
    """

    def __init__(self, stream: TextIO, quiet: bool = False):
        """Draw nothing yet.

        Args:
            stream: where to write: standard output for a log, standard error where results go to standard output.
            quiet: write nothing.
        """
        self.stream = stream
        self.quiet = quiet
        self._live: Live | None = None
        self._origin: tuple[float, float] | None = None
        self._state: tuple[float, str, str] | None = None

    def __enter__(self) -> Progress:
        """Start the clock."""
        self._started = self._shown = time.monotonic()
        if not self.quiet:
            self._live = _open_live(self.stream)
        return self

    def __exit__(self, *_: object) -> None:
        """Show the last state and leave it."""
        self._write()
        if self._live is not None:
            self._live.stop()

    def rate(self, count: float) -> float:
        """Return ``count`` over the seconds since the start."""
        return count / max(time.monotonic() - self._started, 1e-9)

    def show(self, share: float, counts: str, note: str = "") -> None:
        """Show the state now, or with a later call if the display was redrawn a moment ago.

        Args:
            share: part of the task that is done, 0 to 1.
            counts: what is done, such as ``1,000 steps  50 steps/s``.
            note: more, of any length.
        """
        if self.quiet:
            return
        now = time.monotonic()
        if self._origin is None:
            self._origin = (now, share)
        self._state = (share, f"{int(100 * share):3}%  {counts}{self._time_left(now, share)}", note)
        if now - self._shown >= (PLAIN_INTERVAL_S if self._live is None else TERMINAL_INTERVAL_S):
            self._shown = now
            self._write()

    def _write(self) -> None:
        """Show what has not been shown yet."""
        if self._state is None:
            return
        share, line, note = self._state
        self._state = None
        if self._live is None:
            print(f"{line}  {note}".rstrip(), file=self.stream, flush=True)
        else:
            _draw(self._live, share, line, note)

    def _time_left(self, now: float, share: float) -> str:
        """Estimate the time left from the work since the first call, because a resumed run starts above 0."""
        began, before = self._origin or (now, share)
        if not before < share < 1.0:
            return ""
        seconds = (now - began) * (1.0 - share) / (share - before)
        return f"  {datetime.timedelta(seconds=round(seconds))} left"


def _open_live(stream: TextIO) -> Live | None:
    """Return a started display; None without a terminal, without rich, or where the cursor cannot move."""
    if not stream.isatty() or importlib.util.find_spec("rich") is None:
        return None
    from rich.console import Console
    from rich.live import Live

    console = Console(file=stream)
    if not console.is_interactive:  # TERM=dumb
        return None
    # Other output goes above the display, unless it goes into a file.
    out, error = sys.stdout.isatty(), sys.stderr.isatty()
    live = Live(console=console, auto_refresh=False, redirect_stdout=out, redirect_stderr=error)
    live.start()
    console.show_cursor()  # Live hides it; a process that is killed could not show it again.
    return live


def _draw(live: Live, share: float, line: str, note: str) -> None:
    """Redraw the two lines; where the first is tight, the bar shrinks."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    overflow: OverflowMethod = "crop" if live.console.options.ascii_only else "ellipsis"
    first = Table.grid(padding=(0, 1))
    first.add_column(max_width=BAR_WIDTH)
    first.add_column(no_wrap=True, overflow=overflow)
    first.add_row(ProgressBar(total=1.0, completed=share), line)
    live.update(Group(first, Text(note, no_wrap=True, overflow=overflow)), refresh=True)
