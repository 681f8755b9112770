"""From the start of a process to its first step, with kernels still to be compiled and with kernels in the cache.

``python -m gpu_vecenv.bench.startup WORDS`` is the process that is timed: a line on its output says that the
first step is done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpu_vecenv
from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.env_only import make_env, random_actions
from gpu_vecenv.bench.subject import Maker, Subject
from gpu_vecenv.bench.timing import Reading, synchronise
from gpu_vecenv.errors import GpuVecenvError

CACHES = ("GPU_VECENV_CACHE_DIR", "CUPY_CACHE_DIR")
"""Where kernels compiled for the CPU and for a GPU are kept."""


def ways(case: Case, device: str) -> dict[str, Maker]:
    """Cold and warm cache. A cold process leaves its cache to the warm one after it."""
    cache = Cache()
    return {
        "cold": lambda: Subject(FirstStep(case, device, cache, cold=True)),
        "warm": lambda: Subject(FirstStep(case, device, cache, cold=False), close=cache.close),
    }


class Cache:
    """A folder for compiled kernels."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()

    @property
    def path(self) -> str:
        """Where it is."""
        return self._folder.name

    def clear(self) -> None:
        """Go on in an empty folder."""
        self._folder.cleanup()
        self._folder = tempfile.TemporaryDirectory()

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


class FirstStep:
    """Processes that make an env and step it once."""

    most_calls = 1

    def __init__(self, case: Case, device: str, cache: Cache, cold: bool) -> None:
        self._words = json.dumps([case.env, case.worlds, case.env_params(), device])
        self._cache, self._cold = cache, cold

    def read(self, calls: int) -> Reading:
        """Seconds of one process up to the end of its first step; its end is not counted."""
        if self._cold:
            self._cache.clear()
        root = str(Path(gpu_vecenv.__file__).parent.parent)
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": paths, **dict.fromkeys(CACHES, self._cache.path)}
        command = [sys.executable, "-m", "gpu_vecenv.bench.startup", self._words]
        start = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            said = child.stdout.readline() if child.stdout else ""
            seconds = time.perf_counter() - start
            error = child.communicate()[1]
        if said.strip() != "stepped":
            raise GpuVecenvError(f"the process did not step: {' '.join(error.strip().splitlines()[-1:])}")
        return Reading(seconds, seconds)


def first_step(words: str) -> None:
    """Make an env, step it once, wait for the step, and say so."""
    env_id, worlds, params, device = json.loads(words)
    env, _ = make_env(Case(env_id, worlds, params), device)
    env.step(random_actions(env, 1)[0])
    synchronise(device)
    print("stepped", flush=True)


if __name__ == "__main__":
    first_step(sys.argv[1])
