"""Whole iterations of this package's trainer: rollout and PPO update."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch

from gpu_vecenv.bench.counting import peak_memory
from gpu_vecenv.bench.settings import Setting
from gpu_vecenv.bench.subject import Maker, Subject
from gpu_vecenv.bench.timing import Reading, synchronise
from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.train import TrainConfig, Trainer
from gpu_vecenv.train.runner.interrupt import StopRequest
from gpu_vecenv.train.runner.one_of_many import OneOfMany
from gpu_vecenv.train.runner.streams import Streams

WARM_UP = 4
"""Iterations before a sample: two run operation by operation, the third is captured, and one more is replayed."""

SAMPLE_SCALE = 10
"""A sample of training takes so many times the seconds of other samples. An iteration is longer than a step, and the first
iteration of a sample finds an empty queue."""

RUNS = 8
"""Runs side by side."""

WAYS: dict[str, dict[str, Any]] = {
    "fused": {"kernels": "fused"},
    "graph": {"kernels": "torch"},
    "graph_tf32": {"kernels": "torch", "precision": "tf32"},
    "graph_bfloat16": {"kernels": "torch", "precision": "bfloat16"},
    "eager": {"kernels": "torch", "graph": False},
}
"""Options of a run by way."""


def ways(setting: Setting, device: str) -> dict[str, Maker]:
    """Makers of iterations by kernels, graph and precision, and of several runs side by side; on the CPU by kernels."""
    makers: dict[str, Maker] = {way: functools.partial(_one, setting, way, device) for way in WAYS}
    if device == "cpu":
        return {way: makers[way] for way in ("fused", "eager")}
    return {**makers, f"fused_{RUNS}_runs": functools.partial(_many, setting, device)}


def require_way(trainer: Trainer) -> None:
    """Raise an error if the trainer does not run as its options ask, so that no row has the figure of another way.

    Raises:
        GpuVecenvError: a policy has no fused kernels, or iterations are not captured.
    """
    reasons = [f"{name!r} has no fused kernels: {why}" for name, why in trainer.parts.not_fused.items()]
    reasons += [f"no CUDA graph: {why}"] if (why := getattr(trainer.executor, "reason", "")) else []
    if reasons:
        raise GpuVecenvError("; ".join(reasons))


def run_iterations(trainer: Trainer, iterations: int) -> None:
    """Train for some iterations.

    Raises:
        KeyboardInterrupt: a signal ended the training, which would otherwise end it alone.
    """
    target = trainer.iteration + iterations
    trainer.train(iterations)
    if trainer.iteration < target:
        raise KeyboardInterrupt


class Iterations:
    """Iterations of one run; a call is one of them. A sample is one ``train()``, with as many in flight as it has."""

    most_calls = None

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def read(self, calls: int) -> Reading:
        """Train for ``calls`` iterations and wait for the device."""
        device = self._trainer.env.device
        synchronise(device)
        start = time.perf_counter()
        run_iterations(self._trainer, calls)
        synchronise(device)
        seconds = time.perf_counter() - start
        return Reading(seconds, seconds)


class RunsInTurn:
    """Iterations of several runs, each on its stream as in ``train_many()``; a call is one iteration of each run.

    The runs have full queues before and after a sample, so a sample launches as many iterations as it reads.
    """

    most_calls = None

    def __init__(self, configs: Sequence[TrainConfig], device: str) -> None:
        self._device, self._stop, self._streams = device, StopRequest(), Streams()
        self._open = ExitStack()
        makers = {f"seed-{each.seed}": (each, functools.partial(Trainer, each, quiet=True, shares_gpu=True)) for each in configs}
        self.runs = [OneOfMany(name, config, make) for name, (config, make) in makers.items()]
        for run in self.runs:
            self._open.callback(run.close)
            if not run.begin(self._streams, self._stop):
                self._failed(run)
        self.read(WARM_UP)
        for run in self.runs:
            if notes := run.notes():
                self.close()
                raise GpuVecenvError("; ".join(notes))

    def read(self, calls: int) -> Reading:
        """Go round the runs ``calls`` times and wait for the device."""
        synchronise(self._device)
        start = time.perf_counter()
        for _ in range(calls):
            for run in self.runs:
                if not run.go_on():
                    self._failed(run)
        synchronise(self._device)
        seconds = time.perf_counter() - start
        return Reading(seconds, seconds)

    def close(self) -> None:
        """End the runs."""
        self._open.close()

    def _failed(self, run: OneOfMany) -> None:
        """Raise the error that ended a run."""
        self.close()
        raise run.result.error or GpuVecenvError(f"{run.name} ended")


def _one(setting: Setting, way: str, device: str) -> Subject:
    config = setting.config(device, torch.get_num_threads(), **WAYS[way])
    start = time.perf_counter()
    with ExitStack() as on_error, peak_memory(device) as peak:
        trainer = Trainer(config, quiet=True)
        on_error.callback(trainer.close)
        run_iterations(trainer, WARM_UP)
        require_way(trainer)
        on_error.pop_all()
    facts = {"ready_s": time.perf_counter() - start, "env_kwargs": trainer.config.env_kwargs, **peak}
    return Subject(Iterations(trainer), setting.ppo.num_steps, facts, trainer.close)


def _many(setting: Setting, device: str) -> Subject:
    config = setting.config(device, torch.get_num_threads(), **WAYS["fused"])
    start = time.perf_counter()
    with peak_memory(device) as peak:
        timed = RunsInTurn([replace(config, seed=seed) for seed in range(RUNS)], device)
    facts = {"ready_s": time.perf_counter() - start, "runs": RUNS, **peak}
    return Subject(timed, RUNS * setting.ppo.num_steps, facts, timed.close)
