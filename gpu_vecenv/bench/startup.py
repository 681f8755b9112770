"""Time from the start of a process to its first step, with an empty and with a filled kernel cache.

``python -m gpu_vecenv.bench.startup WORDS`` is the process that is timed; it prints a line when the first
step is done.
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
"""Variables with the folders of kernels that were compiled for the CPU and for a GPU."""


def ways(case: Case, device: str) -> dict[str, Maker]:
    """Makers of starts with an empty (cold) and a filled (warm) cache. The cold process fills the cache of the warm one."""
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
        """Path of the folder."""
        return self._folder.name

    def clear(self) -> None:
        """Replace the folder by an empty one."""
        self._folder.cleanup()
        self._folder = tempfile.TemporaryDirectory()

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


class FirstStep:
    """Times processes that make an env and step it once."""

    most_calls = 1

    def __init__(self, case: Case, device: str, cache: Cache, cold: bool) -> None:
        self._words = json.dumps([case.env, case.worlds, case.env_params(), device])
        self._cache, self._cold = cache, cold

    def read(self, calls: int) -> Reading:
        """Return the seconds from the start of one process to the end of its first step."""
        if self._cold:
            self._cache.clear()
        root = str(Path(gpu_vecenv.__file__).parent.parent)
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": paths, **dict.fromkeys(CACHES, self._cache.path)}
        command = [sys.executable, "-m", "gpu_vecenv.bench.startup", self._words]
        start = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            line = child.stdout.readline() if child.stdout else ""
            seconds = time.perf_counter() - start
            error = child.communicate()[1]
        if line.strip() != "stepped":
            raise GpuVecenvError(f"the process did not step: {' '.join(error.strip().splitlines()[-1:])}")
        return Reading(seconds, seconds)


def first_step(words: str) -> None:
    """Make an env, step it once, wait for the step, and print ``stepped``."""
    env_id, worlds, params, device = json.loads(words)
    env, _ = make_env(Case(env_id, worlds, params), device)
    env.step(random_actions(env, 1)[0])
    synchronise(device)
    print("stepped", flush=True)


if __name__ == "__main__":
    first_step(sys.argv[1])
