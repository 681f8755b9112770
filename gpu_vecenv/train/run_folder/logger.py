"""Gives the metrics of a run to all sinks: files, TensorBoard if it is installed, Weights & Biases if asked, the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from gpu_vecenv.train.run_folder import tensorboard
from gpu_vecenv.train.run_folder.json_lines import JsonLines
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE
from gpu_vecenv.train.run_folder.sink import Sink
from gpu_vecenv.train.run_folder.terminal import Terminal
from gpu_vecenv.train.run_folder.weights_and_biases import WeightsAndBiases, require_wandb


class Logger:
    """Records one dict of numbers for each iteration. Use as a context manager, in which ``begin()`` comes first.

    Entering it opens what may fail for reasons outside the run's folder; files that make the folder one of a run come later.
    """

    def __init__(
        self,
        out: Path | None,
        total_steps: int,
        first_iteration: int = 0,
        quiet: bool = False,
        *,
        first_steps: int = 0,
        wandb: str | None = None,
        options: Mapping[str, Any] | None = None,
        sinks: Sequence[Sink] = (),
    ):
        """Set the logger up; nothing is opened yet.

        Args:
            out: folder for files; None writes no files.
            total_steps: steps of the whole run, summed over worlds, for the progress bar.
            first_iteration: iterations already done; lines of later ones, from an interrupted run, are removed.
            quiet: print nothing.
            first_steps: steps of the iterations already done, summed over worlds.
            wandb: project at Weights & Biases; None sends nothing.
            options: the run's options, for Weights & Biases.
            sinks: the user's own sinks, which stay open.

        Raises:
            ConfigError: ``wandb`` is given and the package is not installed.
        """
        require_wandb(wandb)
        self.out = out
        self.total_steps = total_steps
        self.first_iteration = first_iteration
        self.quiet = quiet
        self.first_steps = first_steps
        self.wandb = wandb
        self.options = options or {}
        self._given_sinks = tuple(sinks)
        self._sinks: list[Sink] = []
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Logger:
        """Open Weights & Biases and TensorBoard; if one cannot be opened, close the other."""
        self._sinks = list(self._given_sinks)
        with contextlib.ExitStack() as opened:
            if self.wandb is not None:
                self._add(WeightsAndBiases(self.wandb, self.out, self.options), opened)
            if self.out is not None and tensorboard.is_installed():
                self._add(tensorboard.TensorBoard(self.out / "tensorboard", self.first_steps), opened)
            self._resources = opened.pop_all()
        return self

    def begin(self) -> None:
        """Open the file of metrics and the display.

        Raises:
            MetricsError: the file is damaged; it is unchanged.
            OSError: the file cannot be written.
        """
        if self.out is not None:  # before the others, so that an error of these leaves the line of the iteration in the file
            self._add(JsonLines(self.out / METRICS_FILE, self.first_iteration), self._resources, len(self._given_sinks))
        self._add(Terminal(self.total_steps, sys.stdout, self.quiet), self._resources)

    def _add(self, sink: Sink, opened: contextlib.ExitStack, place: int = sys.maxsize) -> None:
        opened.callback(sink.close)
        self._sinks.insert(place, sink)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the sinks that were opened. An error of a sink does not replace the error that ended the run."""
        self._sinks.clear()
        try:
            self._resources.close()
        except OSError as closing:
            if error is None:
                raise
            error.add_note(f"While the sinks of the metrics were closed: {closing}")

    def log(self, metrics: Mapping[str, float]) -> None:
        """Record an iteration.

        Args:
            metrics: numbers by name, among them ``iteration`` and ``steps``. NaN means no value.
        """
        for sink in self._sinks:
            sink.log(metrics)

    def flush(self) -> None:
        """Store all that was logged; call it before a checkpoint is written."""
        for sink in self._sinks:
            sink.flush()
