"""Trials of sizes: a run of each is made, iterates for a fraction of a second, and is removed."""

from __future__ import annotations

import contextlib
import copy
import gc
import math
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import nn

from gpu_vecenv.backend.host_memory import is_out_of_memory
from gpu_vecenv.errors import OutOfMemoryError
from gpu_vecenv.train.config import ResolvedConfig
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.executor import WARM_UP, make_executor
from gpu_vecenv.train.runner.iteration import IN_FLIGHT
from gpu_vecenv.train.runner.pipeline import Pipeline
from gpu_vecenv.train.runner.run_state import RunState
from gpu_vecenv.train.runner.size_grid import Sizes
from gpu_vecenv.train.runner.streams import Streams
from gpu_vecenv.train.runner.torch_settings import torch_threads

SAMPLE_S = 0.05
"""Seconds of a sample of iterations, unless a single one is longer."""

TRIAL_S = 0.3
"""Seconds after which a trial takes no further sample."""

MAX_SAMPLES = 3
"""Samples of a trial, of which the fastest counts: other work of the machine only makes them longer."""

STREAMS = Streams()
"""Streams of the trials of all searches in this process."""


class Trials:
    """Measures sizes of one run on its device; see ``size_search.Measure``."""

    def __init__(
        self,
        config_of: Callable[[Sizes], ResolvedConfig],
        networks: Mapping[str, nn.Module],
        shares_gpu: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Nothing is made yet.

        Args:
            config_of: options of a run of some sizes.
            networks: policy name to the user's network; trials train copies.
            shares_gpu: see ``Trainer``.
            clock: clock of the iterations, in seconds.
        """
        self._config_of, self._networks, self._shares_gpu, self._clock = config_of, networks, shares_gpu, clock
        self._warm_up, self._set_up_s = 1, list[float]()
        self._slowdown = 1.0  # seconds that pass in one of the clock

    def __call__(self, sizes: Sizes) -> float:
        """Return steps a second of whole iterations, summed over worlds; see ``Measure``."""
        try:
            return sizes.batch / self._iteration_seconds(self._config_of(sizes))
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            traceback.clear_frames(error.__traceback__)  # their local variables are the arrays of the trial
            raise OutOfMemoryError(str(error)) from None
        finally:
            gc.collect()
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()

    def seconds(self, iteration: float) -> float:
        """Return the seconds of a trial. Making a run is assumed to take the median of the trials so far.

        The first trial may compile kernels, which later ones find in the cache, so it is left out of the median. While there is
        no other, a quarter of its time is assumed.
        """
        samples = min(MAX_SAMPLES, math.ceil(TRIAL_S / iteration)) * max(iteration, SAMPLE_S)
        first, later = self._set_up_s[:1], self._set_up_s[1:]
        set_up = statistics.median(later) if later else sum(first) / 4
        return set_up + (iteration * (self._warm_up + 1) + samples) * self._slowdown

    @contextlib.contextmanager
    def _on_stream(self, config: ResolvedConfig) -> Iterator[None]:
        """Make a stream current for a trial; the next one takes it again, in this search or a later one."""
        stream = STREAMS.take(config.device)
        try:
            with torch.cuda.stream(stream):
                yield
        finally:
            STREAMS.give_back(stream)

    def _iteration_seconds(self, config: ResolvedConfig) -> float:
        """Make a run, and return the seconds of one of its iterations."""
        started = time.perf_counter()
        # Networks of users may draw from torch's generator; the run draws as it would without a search.
        saved_generator = torch.random.fork_rng(devices=[])
        with saved_generator, self._on_stream(config), contextlib.closing(make_env(config)) as env, torch_threads(config.threads):
            parts = RunState(env, config, copy.deepcopy(dict(self._networks)), self._shares_gpu)
            parts.collector.reset(config.seed)
            on_gpu = env.device != "cpu"
            pipeline = Pipeline(parts, make_executor(config, env, quiet=True), IN_FLIGHT if on_gpu else 1)
            self._warm_up = WARM_UP + 2 if on_gpu else 1  # the capture, and a replay
            iterate = _Iterations(pipeline, self._clock)
            iterate(self._warm_up)
            warm, before = time.perf_counter(), self._clock()
            seconds = iterate(1)
            usual = self._warm_up * (time.perf_counter() - warm)
            self._set_up_s.append(max(0.0, warm - started - usual))
            count = max(1, round(SAMPLE_S / max(seconds, 1e-6)))
            samples = [] if count > 1 else [seconds]  # one iteration alone leaves a GPU's queue empty
            spent = sum(samples)
            while len(samples) < MAX_SAMPLES and (not samples or spent < TRIAL_S):
                samples.append(iterate(count))
                spent += samples[-1] * count
            self._slowdown = max(self._slowdown, (time.perf_counter() - warm) / max(self._clock() - before, 1e-6))
            return min(samples)


class _Iterations:
    """Runs iterations as ``Trainer.train()`` does, with as many in flight."""

    def __init__(self, pipeline: Pipeline, clock: Callable[[], float]) -> None:
        self._pipeline, self._clock, self._number = pipeline, clock, 0

    def __call__(self, count: int) -> float:
        """Run some iterations, and return the seconds of one."""
        start, launched = self._clock(), 0
        for _ in range(count):
            while launched < count and self._pipeline.count < self._pipeline.most:
                self._pipeline.launch(self._number)
                launched += 1
                self._number += 1
            self._pipeline.finish()
        return (self._clock() - start) / count
