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
    """Cold and warm cache."""
    return {
        "cold": lambda: Subject(FirstStep(case, device, cold=True)),
        "warm": lambda: Subject(FirstStep(case, device, cold=False)),
    }


class FirstStep:
    """Processes that make an env and step it once; the cache is a folder of its own, empty in each or kept."""

    most_calls = 1

    def __init__(self, case: Case, device: str, cold: bool) -> None:
        self._words = json.dumps([case.env, case.worlds, case.env_params(), device])
        self._cold = cold
        self._kept = tempfile.TemporaryDirectory()

    def read(self, calls: int) -> Reading:
        """Seconds of one process up to the end of its first step; its end is not counted."""
        with tempfile.TemporaryDirectory() as empty:
            folder = empty if self._cold else self._kept.name
            root = str(Path(gpu_vecenv.__file__).parent.parent)
            paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
            environment = {**os.environ, "PYTHONPATH": paths, **dict.fromkeys(CACHES, folder)}
            start = time.perf_counter()
            command = [sys.executable, "-m", "gpu_vecenv.bench.startup", self._words]
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
                said = child.stdout.readline() if child.stdout else ""
                seconds = time.perf_counter() - start
                error = child.communicate()[1]
            if said.strip() != "stepped":
                raise GpuVecenvError(f"the process did not step: {error.strip().splitlines()[-1:]}")
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
