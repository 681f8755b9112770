"""Time from the start of a process to its first step, its first iteration and a trained policy; kernels are cached or not."""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gpu_vecenv
from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.subject import Maker, Subject
from gpu_vecenv.bench.timing import Reading
from gpu_vecenv.errors import GpuVecenvError

CACHES = ("GPU_VECENV_CACHE_DIR", "CUPY_CACHE_DIR")
"""Variables with the folders of kernels that were compiled for the CPU and for a GPU."""

WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "cpu": {"fused": {}},
    "cuda": {"graph": {"kernels": "torch"}, "fused": {"kernels": "fused"}},
}
"""Options of a run by the kind of the device and way."""

TO_THE_END = {"evaluation_interval": 10, "stop_at": 475.0}
"""Options of a run that ends when it is trained: Gymnasium's threshold of the mean return of CartPole-v1."""


def ways(case: Case, device: str) -> dict[str, Maker]:
    """Makers of starts up to the first step, with an empty (cold) and a filled (warm) cache."""
    words = ["step", case.env, case.worlds, case.env_params(), device]
    return {kind: functools.partial(_subject, words, "stepped", kind == "cold") for kind in ("cold", "warm")}


def training_ways(case: Case, device: str) -> dict[str, Maker]:
    """Makers of starts of training, up to the end of the first iteration (cold and warm) and up to a trained policy (warm)."""
    makers: dict[str, Maker] = {}
    for way, chosen in WAYS[device.partition(":")[0]].items():
        options = {"env_id": case.env, "num_envs": case.worlds, "env_kwargs": case.params, "device": device, **chosen}
        one_iteration, full_run = ["train", 1, options], ["train", None, options | TO_THE_END]
        makers |= {
            f"{way}_first_iteration_cold": functools.partial(_subject, one_iteration, "iterated", True),
            f"{way}_first_iteration_warm": functools.partial(_subject, one_iteration, "iterated", False),
            f"{way}_trained_warm": functools.partial(_subject, full_run, "trained", False),
        }
    return makers


def _subject(words: Sequence[Any], last: str, cold: bool) -> Subject:
    start = Start(words, last, cold)
    return Subject(start, 1, start.facts, start.close)


class Start:
    """Times processes of ``gpu_vecenv.bench.started``.

    Args:
        words: a function of that module and its arguments.
        last: the phase whose end is waited for.
        cold: start each process with an empty cache; otherwise the first one is not timed and fills the cache.

    Attributes:
        facts: ``phases_s`` holds the seconds from the start of the process to the end of each phase, medians of all readings.
    """

    most_calls = 1

    def __init__(self, words: Sequence[Any], last: str, cold: bool) -> None:
        self._words, self._last, self._cold = json.dumps(words), last, cold
        self._cache = tempfile.TemporaryDirectory()
        self._read: list[dict[str, float]] = []
        self.facts: dict[str, Any] = {}

    def read(self, calls: int) -> Reading:
        """Return the seconds from the start of one process to the end of its last phase."""
        if self._cold:
            self._cache.cleanup()
            self._cache = tempfile.TemporaryDirectory()
        elif not self._read:
            self._run()
        self._read.append(self._run())
        self.facts["phases_s"] = {phase: statistics.median(each[phase] for each in self._read) for phase in self._read[0]}
        seconds = self._read[-1][self._last]
        return Reading(seconds, seconds)

    def _run(self) -> dict[str, float]:
        """Run a process; return the seconds from its start to the end of each phase."""
        root = str(Path(gpu_vecenv.__file__).parent.parent)
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": paths, **dict.fromkeys(CACHES, self._cache.name)}
        command = [sys.executable, "-m", "gpu_vecenv.bench.started", self._words]
        phases: dict[str, float] = {}
        start = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            while self._last not in phases and (line := child.stdout.readline()):
                phases[line.strip()] = time.perf_counter() - start
            error = child.communicate()[1]
        if self._last not in phases:
            raise GpuVecenvError(f"the process did not get to {self._last!r}: {' '.join(error.strip().splitlines()[-1:])}")
        return phases

    def close(self) -> None:
        """Remove the cache."""
        self._cache.cleanup()
