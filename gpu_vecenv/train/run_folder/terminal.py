"""Shows the metrics of a run on the terminal."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import TextIO

from gpu_vecenv.train.run_folder.progress import Progress


class Terminal:
    """Shows steps, rates, returns and losses. A terminal or pipe that was closed ends the display, never the run."""

    def __init__(self, total_steps: int, output: TextIO, quiet: bool) -> None:
        """Start the display.

        Args:
            total_steps: steps of the whole run, summed over worlds, for the progress bar.
            output: standard output.
            quiet: print nothing.
        """
        self.total_steps = total_steps
        self._returns: dict[str, float] = {}
        self._latest: Mapping[str, float] | None = None
        self._began = False
        self._progress: Progress | None = Progress(output, quiet)
        self._progress.__enter__()

    def log(self, metrics: Mapping[str, float]) -> None:
        """Show an iteration; a policy without a finished episode keeps its last mean return.

        Texts are made only if they are drawn, because a fast run has many more iterations than the display has drawings.
        """
        if self._progress is None or self._progress.quiet:
            return
        self._returns.update((k, v) for k, v in metrics.items() if k.startswith("return/") and not math.isnan(v))
        self._latest = metrics
        if not self._began or self._progress.due:
            self._show()
            self._began = True

    def _show(self) -> None:
        """Give the latest iteration to the display, if it has not been given."""
        metrics, self._latest = self._latest, None
        if metrics is None or self._progress is None:
            return
        notes = [f"{name} {mean:.2f}" for name, mean in self._returns.items()]
        losses = [f"{k.removeprefix('policy_loss/')} {v:+.3f}" for k, v in metrics.items() if "policy_loss/" in k]
        values = [f"{v:.3f}" for k, v in metrics.items() if k.startswith("value_loss/")]
        notes += ["loss " + " ".join(losses), "value loss " + " ".join(values)]
        counts = f"{metrics['steps']:,.0f} steps  {metrics['steps_per_second']:,.0f} steps/s"
        try:
            self._progress.show(metrics["steps"] / self.total_steps, counts, "  ".join(notes))
        except OSError:
            self._progress = None

    def flush(self) -> None:
        """Do nothing: nothing is stored."""

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._show()
        progress, self._progress = self._progress, None
        with contextlib.suppress(OSError):
            if progress is not None:
                progress.__exit__()


def say(text: str) -> None:
    """Print a line, unless the terminal or pipe was closed."""
    with contextlib.suppress(OSError):
        print(text, flush=True)
