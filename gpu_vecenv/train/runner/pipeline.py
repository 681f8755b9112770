"""Iterations in flight: the device has them in its queue, and the host has not read their metrics yet.

Evaluations and checkpoints need the state right after an iteration, so they limit the number in flight.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING

import torch

from gpu_vecenv.errors import SequenceError
from gpu_vecenv.train.errors import NonFiniteError
from gpu_vecenv.train.runner.diagnosis import describe_nonfinite, describe_nonfinite_state
from gpu_vecenv.train.runner.executor import Executor
from gpu_vecenv.train.runner.iteration import IN_FLIGHT, NONFINITE
from gpu_vecenv.train.runner.run_state import RunState

if TYPE_CHECKING:
    from gpu_vecenv.train.runner.live import LiveView

CHECKPOINT_S = 60.0
"""Seconds after a checkpoint at which the next one is due, if a multiple of ``checkpoint_interval`` does not come first. A
checkpoint may take as long as fifty short iterations."""


class Pipeline:
    """Launches iterations and finishes them in order.

    Attributes:
        most: largest number of iterations in flight, 1 to ``IN_FLIGHT``.
        live: what records rollouts for a page; None without one.
    """

    def __init__(self, parts: RunState, executor: Executor, most: int) -> None:
        """Prepare the launches.

        Args:
            parts: the parts of a run.
            executor: what runs an iteration.
            most: largest number of iterations in flight.
        """
        self.parts, self.executor, self.most = parts, executor, most
        self.live: LiveView | None = None
        self._device = torch.device(parts.collector.env.device)
        on_gpu = self._device.type == "cuda"
        self._done = [torch.cuda.Event() for _ in range(IN_FLIGHT)] if on_gpu else []
        self._launched = 0
        self._stream = torch.cuda.current_stream(self._device) if on_gpu else None
        self._waiting: deque[tuple[int, int]] = deque()  # numbers of iterations, and their rows of metrics
        self._wishes = (False, False)
        self._times: deque[float] = deque(maxlen=IN_FLIGHT + 1)

    @property
    def count(self) -> int:
        """Number of iterations in flight."""
        return len(self._waiting)

    def launch(self, number: int, wishes: tuple[bool, bool] = (False, False)) -> None:
        """Queue an iteration on the caller's current stream and return at once.

        Args:
            number: number of the iteration in the run, from 0.
            wishes: see ``WISHES``; of a run in several processes.

        Raises:
            SequenceError: ``most`` iterations are in flight.
        """
        if self.count >= self.most:
            raise SequenceError(f"launch(): expected fewer than {self.most} iterations in flight, got that many; call finish().")
        if not self._waiting:
            self._times.clear()
            self._times.append(time.perf_counter())
        self._follow_stream()
        self.parts.schedules.prepare(number)
        if wishes != self._wishes:
            self.parts.iteration.wishes.copy_(torch.tensor(wishes, dtype=torch.float32, device="cpu"))
            self._wishes = wishes
        if self.live is not None:
            self.live.before(number)
        self.executor(self.parts.iteration, number == 0)
        if self.live is not None:
            self.live.after()
        row = self._launched % IN_FLIGHT
        self._launched += 1
        if self._done:
            self._done[row].record(self._stream)
        self._waiting.append((number, row))

    def finish(self) -> tuple[dict[str, float], float]:
        """Wait for the oldest iteration in flight.

        Returns:
            Its metrics, and iterations a second: the mean rate over at most the last 16 iterations; it starts anew at a launch
            with nothing in flight.

        Raises:
            SequenceError: no iteration is in flight.
            NonFiniteError: a number is not finite. Later iterations in flight are dropped.
        """
        if not self._waiting:
            raise SequenceError("finish(): expected an iteration in flight, got none; call launch() first.")
        number, row = self._waiting.popleft()
        if self._done:
            self._wait(row)  # the one host sync
        if self.live is not None:
            self.live.finished(number)
        self._times.append(time.perf_counter())
        values = dict(zip(self.parts.iteration.metric_names, self.parts.iteration.metric_rows.rows[row].tolist(), strict=True))
        for name in self.parts.policies:
            if values.pop(f"{NONFINITE}/{name}", 0.0) or values.get(f"skipped/{name}", 0.0):
                where = self._where(name)
                raise NonFiniteError(f"iteration {number + 1}: {where}; the newest checkpoint is of an earlier iteration")
        return values, (len(self._times) - 1) / (self._times[-1] - self._times[0])

    def _wait(self, row: int) -> None:
        """Wait until the device has done an iteration, which never ends if one of several processes is lost."""
        if self.parts.processes is None:
            self._done[row].synchronize()
        else:
            self.parts.processes.wait_for(self._done[row])

    def require_none(self) -> None:
        """Make the current stream wait for all work of the run.

        Raises:
            SequenceError: iterations are in flight.
        """
        if self._waiting:
            raise SequenceError(f"expected no iteration in flight, got {self.count}; call finish() for each of them first.")
        self._follow_stream()

    def _where(self, name: str) -> str:
        """Describe the number of a policy that is not finite. Later iterations in flight have overwritten its rollout."""
        later, policy, algorithm = self.count, self.parts.policies[name], self.parts.algorithms.get(name)
        if not later:
            return describe_nonfinite(name, policy, self.parts.rows[name], algorithm)
        if self._done:
            self._done[self._waiting[-1][1]].synchronize()
        self._waiting.clear()
        how = f"seen {later} iterations later; a resumed run with a callback finds the place in the rollout"
        return f"{describe_nonfinite_state(name, policy, algorithm)} ({how})"

    def _follow_stream(self) -> None:
        """Make the caller's current stream wait for all work of this run, if it is another stream than before."""
        if self._stream is None:
            return
        stream = torch.cuda.current_stream(self._device)
        if stream != self._stream:
            stream.wait_stream(self._stream)
            self._stream = stream


def until_next(interval: int | None, iteration: int) -> float:
    """Return the number of iterations from one to the next multiple of an interval; infinity without an interval."""
    return math.inf if interval is None else interval - iteration % interval


class LaunchLimit:
    """Says when checkpoints are due, and how many iterations may be in flight until the next checkpoint or evaluation."""

    def __init__(self, saves: bool, checkpoint_interval: int | None, evaluation_interval: int | None) -> None:
        """Start the clock.

        Args:
            saves: the run has a folder for checkpoints.
            checkpoint_interval: iterations between two checkpoints; None saves by time alone.
            evaluation_interval: iterations between two evaluations; None: no evaluations.
        """
        self._saves, self._evaluation_interval = saves, evaluation_interval
        self._checkpoint_interval = checkpoint_interval if saves else None
        self.agreed: bool | None = None
        """True if all processes of a run know that the first one wants to save; None: this process alone decides."""
        self.saved()

    def saved(self) -> None:
        """Start the clock again, after a checkpoint."""
        self._saved_at = time.monotonic()
        self.agreed = None if self.agreed is None else False

    def wants_save(self) -> bool:
        """Return True if a checkpoint is due by the clock of this process."""
        return self._saves and time.monotonic() - self._saved_at >= CHECKPOINT_S

    def most(self, iteration: int) -> float:
        """Return the most iterations in flight after ``iteration`` finished ones, at least 1; infinity without a limit."""
        if self._is_late():
            return 1
        return min(until_next(self._checkpoint_interval, iteration), until_next(self._evaluation_interval, iteration))

    def saves(self, iteration: int) -> bool:
        """Return True if a checkpoint is due after ``iteration`` finished ones."""
        return until_next(self._checkpoint_interval, iteration - 1) == 1 or self._is_late()

    def _is_late(self) -> bool:
        return self.wants_save() if self.agreed is None else self.agreed
