"""Shows the metrics of a run on the terminal."""

from __future__ import annotations

import collections
import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import TextIO

from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.run_folder.titles import metrics_of_algorithms, title_of

_SHOWN = 2
"""Number of metrics of a policy's algorithm that are shown: its first ones."""


class Terminal:
    """Shows steps, rates, returns and first metrics of algorithms. A closed terminal or pipe ends the display, never the run."""

    def __init__(self, total_steps: int, output: TextIO, quiet: bool) -> None:
        """Start the display.

        Args:
            total_steps: steps of the whole run, summed over worlds, for the progress bar.
            output: standard output.
            quiet: print nothing.
        """
        self.total_steps = total_steps
        self._values: dict[str, float] = {}
        self._latest: Mapping[str, float] | None = None
        self._began = False
        self._progress: Progress | None = Progress(output, quiet)
        self._progress.__enter__()

    def log(self, metrics: Mapping[str, float]) -> None:
        """Show an iteration; a metric without a value, such as the mean return when no episode ended, keeps its last one.

        Texts are made only if they are drawn, because a fast run has many more iterations than the display has drawings.
        """
        if self._progress is None or self._progress.quiet:
            return
        self._values.update((k, v) for k, v in metrics.items() if not math.isnan(v))
        self._latest = metrics
        if not self._began or self._progress.due:
            self._show()
            self._began = True

    def _show(self) -> None:
        """Give the latest iteration to the display, if it has not been given."""
        metrics, self._latest = self._latest, None
        if metrics is None or self._progress is None:
            return
        notes = [f"{name} {mean:.2f}" for name, mean in self._values.items() if name.startswith("return/")]
        notes += _notes_of_algorithms(metrics, self._values)
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


def _notes_of_algorithms(names: Iterable[str], values: Mapping[str, float]) -> list[str]:
    """Return a text for each metric shown, such as ``loss tagger -0.012 runner +0.003``.

    Policies are named unless they are those of the text before.

    Args:
        names: names of all metrics.
        values: values of those that have had any.
    """
    shown: dict[str, dict[str, float]] = {}
    counts: collections.Counter[str] = collections.Counter()
    for metric, policy in metrics_of_algorithms(names):
        counts[policy] += 1
        if counts[policy] <= _SHOWN and (name := f"{metric}/{policy}") in values:
            shown.setdefault(metric, {})[policy] = values[name]
    notes: list[str] = []
    named: list[str] = []
    for metric, by_policy in shown.items():
        title, sign = ("loss", "+") if metric == "policy_loss" else (title_of(metric), "")
        labels = ["" if list(by_policy) == named else f"{policy} " for policy in by_policy]
        texts = [f"{label}{x:{sign}.3f}" for label, x in zip(labels, by_policy.values(), strict=True)]
        notes.append(" ".join([title, *texts]))
        named = list(by_policy)
    return notes


def say(text: str) -> None:
    """Print a line, unless the terminal or pipe was closed."""
    with contextlib.suppress(OSError):
        print(text, flush=True)
