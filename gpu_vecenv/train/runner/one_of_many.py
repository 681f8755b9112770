"""One of several runs that are trained side by side in a process."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.fused.cost import not_fused_lines
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, read_metrics
from gpu_vecenv.train.runner.interrupt import StopRequest
from gpu_vecenv.train.runner.streams import Streams
from gpu_vecenv.train.runner.torch_settings import torch_threads
from gpu_vecenv.train.runner.trainer import Trainer


@dataclass(frozen=True)
class RunResult:
    """Result of one of several runs."""

    config: TrainConfig
    """Options of the run; resolved if it has begun."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Metrics of the last iteration; empty without one."""
    best: float = -math.inf
    """Highest mean return of the evaluations; minus infinity without one."""
    finished: str = ""
    """Reason why the run is over, or that of ``Trainer.request_stop()``; empty after an error or a signal."""
    error: Exception | None = None
    """Error that ended the run; None without one."""


class OneOfMany:
    """A run that is trained from pause to pause, see ``Trainer.pauses()``.

    Attributes:
        name: the run's name.
        trainer: its trainer while it runs; None before and after.
        first_steps: steps done when it began, summed over worlds; 0 but for a resumed run.
        total_steps: steps of the whole run, once it has begun.
        result: how it ended; until then its options alone.
    """

    def __init__(self, name: str, config: TrainConfig, make: Callable[[], Trainer]) -> None:
        """Store how to make the trainer; nothing is allocated yet.

        Args:
            name: the run's name.
            config: its options.
            make: makes its trainer.
        """
        self.name, self._make = name, make
        self.first_steps = self.total_steps = 0
        self.result = RunResult(config)
        self.trainer: Trainer | None = None
        self._pauses: Generator[None] | None = None
        self._streams: Streams | None = None
        self._stream: torch.cuda.Stream | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the last iteration; empty without one."""
        return self.result.metrics if self.trainer is None else self.trainer.metrics

    def notes(self) -> list[str]:
        """Return why parts of the run are slower than its options ask for; empty if none is."""
        if self.trainer is None:
            return []
        notes = not_fused_lines(self.trainer.parts.not_fused, self.trainer.config)
        reason = getattr(self.trainer.executor, "reason", "")
        return notes + [f"iterations run without a CUDA graph: {reason}"] * bool(reason)

    def begin(self, streams: Streams, stop: StopRequest) -> bool:
        """Make the trainer; return False if this fails, and put the error into the result.

        Args:
            streams: gives the run its stream.
            stop: request that ends all runs.
        """
        try:
            self._stream, self._streams = streams.take(self.result.config.device), streams
            with torch.cuda.stream(self._stream):
                self.trainer = self._make()
            self._pauses = self.trainer.pauses(stop)
            self.first_steps = self.trainer.iteration * self.trainer.steps_per_iteration
            self.total_steps = self.trainer.num_iterations * self.trainer.steps_per_iteration
        except Exception as error:
            self.close(error)
        return self.trainer is not None

    def go_on(self) -> bool:
        """Train until the next pause; return False if the run is over. An error ends the run and is put into the result."""
        assert self.trainer is not None and self._pauses is not None
        try:
            with torch.cuda.stream(self._stream), torch_threads(self.trainer.config.threads):
                next(self._pauses)
        except StopIteration:
            self.close()
        except Exception as error:
            self.close(error)
        return self.trainer is not None

    def close(self, error: Exception | None = None) -> None:
        """Put what the run has reached into the result, and free its memory, stream and folder; later calls do nothing.

        Args:
            error: what ended the run.
        """
        trainer, self.trainer = self.trainer, None
        pauses, self._pauses = self._pauses, None
        streams, self._streams = self._streams, None
        if trainer is not None:
            metrics = dict[str, float]()
            try:
                with torch.cuda.stream(self._stream), contextlib.closing(trainer):
                    if pauses is not None:
                        pauses.close()
                    metrics = _last_metrics(trainer)
                    if self._stream is not None:
                        self._stream.synchronize()  # iterations in flight use the arrays
            except Exception as other:
                error = error or other
            finished = "" if error is not None else trainer.finished
            self.result = RunResult(trainer.config, metrics, trainer.best.value, finished, error)
        elif error is not None:
            self.result = dataclasses.replace(self.result, error=error)
        if streams is not None:
            streams.give_back(self._stream)
        if error is not None:
            _forget_locals(error)  # they hold the arrays of the run


def _last_metrics(trainer: Trainer) -> dict[str, float]:
    """Return the metrics of the last iteration, from the run's file if the trainer made none; empty without one."""
    out = trainer.config.out
    if trainer.metrics or out is None or not (Path(out) / METRICS_FILE).exists():
        return trainer.metrics
    lines = read_metrics(out)
    return {name: math.nan if value is None else value for name, value in lines[-1].items()} if lines else {}


def _forget_locals(error: BaseException | None) -> None:
    """Clear the local variables in the tracebacks of an error and of those behind it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def describe(error: Exception) -> str:
    """Return the text of an error, with its traceback unless it is a GpuVecenvError or an OSError."""
    if isinstance(error, GpuVecenvError | OSError):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error)).rstrip()
