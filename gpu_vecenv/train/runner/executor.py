"""Ways to run an iteration on the device. Another way replaces the executor; iteration and algorithms stay as they are."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import torch

from gpu_vecenv.train.config import ResolvedConfig
from gpu_vecenv.train.errors import ConfigError, LostRankError
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.run_folder.terminal import say
from gpu_vecenv.train.runner.iteration import Iteration
from gpu_vecenv.train.storage.wrapped_env import as_wrapped

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


class Executor(Protocol):
    """Runs iterations."""

    def __call__(self, iteration: Iteration, first: bool) -> None:
        """Run an iteration; see ``Iteration.run()``."""


def make_executor(config: ResolvedConfig, env: GpuVectorEnv, quiet: bool, processes: Processes | None = None) -> Executor:
    """Return the executor of a run.

    Args:
        config: resolved options.
        env: the run's env, on the device of the run.
        quiet: print nothing.
        processes: processes of the run; None: this one alone.

    Raises:
        ConfigError: a graph is asked for on the CPU.
    """
    device = torch.device(env.device)
    require_gpu(config, device)
    if device.type != "cuda" or config.graph is False:
        return eager
    wrapped = as_wrapped(env)
    reason = wrapped.why_eager if wrapped else ""
    if processes is not None and not processes.can_be_captured:
        reason = f"sums over processes by {processes.backend} cannot be recorded"
    return GraphExecutor(device, quiet, reason)


def require_gpu(config: ResolvedConfig, device: torch.device) -> None:
    """Raise ConfigError if options of a run need a GPU and the device is none."""
    if device.type == "cuda":
        return
    if config.graph:
        raise ConfigError(f"graph: expected None or False on {device}, got True, which needs a GPU")


def eager(iteration: Iteration, first: bool) -> None:
    """Run an iteration operation by operation."""
    iteration.run(first)


WARM_UP = 2
"""Iterations before the capture. In the first one the update differs, and libraries initialise themselves."""


class GraphExecutor:
    """Runs an iteration as one CUDA graph, which the host launches with one call.

    The first iterations run operation by operation. They train like all others, so nothing is undone. The next one is captured,
    which records its kernels, and then replayed. If the user's code cannot be captured, iterations stay eager, and a message
    gives the reason once.

    A replay runs the recorded kernels alone. Python code of a policy runs while it is captured, and not in later iterations.

    Attributes:
        reason: why iterations stay eager; empty if they do not.
    """

    def __init__(self, device: torch.device, quiet: bool = False, reason: str = "") -> None:
        """Prepare a run.

        Args:
            device: the GPU.
            quiet: print no reason.
            reason: why iterations must stay eager; empty to try a graph.
        """
        self.device, self.quiet, self.reason = device, quiet, ""
        if reason:
            self._stay_eager(reason)
        callers = torch.cuda.current_stream(device)
        # cuBLAS has a workspace for each stream, and a graph keeps that of the stream of its capture. Graphs that run at the same
        # time are therefore captured on the streams of their runs.
        self._stream = callers if callers != torch.cuda.default_stream(device) else torch.cuda.Stream(device)
        self._done = self._version = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, iteration: Iteration, first: bool) -> None:
        """Run an iteration; see ``Iteration.run()``."""
        version = iteration.collector.env.worlds.arguments.version
        if version != self._version:  # the graph holds parameters of the env that a callback has changed
            self._graph, self._version = None, version
        at_end = iteration.collector.is_at_end  # a graph begins with a copy of the last slot; a callback may have reset the env
        if self._graph is None and self._done >= WARM_UP and not first and not self.reason and at_end:
            self._capture(iteration)
        if self._graph is not None and at_end:
            self._graph.replay()
            return
        self._done += 1
        if self.reason:
            iteration.run(first)
            return
        with self._on_side_stream():
            self._watched(iteration, first)

    def close(self) -> None:
        """Free the graph, which must come before the end of the group whose sums it holds."""
        self._graph = None

    def _watched(self, iteration: Iteration, first: bool) -> None:
        """Run an iteration, and keep the reason if the host waits for the device in it, which a graph cannot record."""
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                iteration.run(first)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        for warning in caught:
            if str(warning.message).startswith("Synchronization debug mode is a prototype feature"):
                continue  # torch's note on the mode that is set above
            if "synchronizing CUDA operation" not in str(warning.message):
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
            elif not first and not self.reason:
                self._stay_eager(f"the host waits for the device in {warning.filename}, line {warning.lineno}")

    def _capture(self, iteration: Iteration) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                iteration.run(False)
            self._graph = graph
        except LostRankError:
            raise
        except Exception as error:
            self._stay_eager(first_line(error))
        iteration.collector.count_all_steps()

    def _stay_eager(self, reason: str) -> None:
        self.reason = reason
        if not self.quiet:
            say(f"iterations run without a CUDA graph: {reason}")

    @contextlib.contextmanager
    def _on_side_stream(self) -> Iterator[None]:
        """Make a stream current that can be captured, unlike the default stream, in order with the caller's stream."""
        callers = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(callers)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            callers.wait_stream(self._stream)


def first_line(error: Exception) -> str:
    """Return the type of an error and the first line of its text, if it has one."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
