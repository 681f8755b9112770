"""Kernels under sanitizers on the CPU, with random states, invalid calls and extreme parameters."""

import importlib
import os
import subprocess
import sys

import pytest

from gpu_vecenv.backend.compiler import compile_object
from gpu_vecenv.registration import IDS
from tests.sanitize.runtime import is_clang, runtime

pytestmark = pytest.mark.slow

FLAGS = ("-O1", "-g", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
"""Division by zero is not reported: IEEE 754 defines its result, and a cast of infinity to an index is reported."""

OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Folder of kernels built with a sanitizer."""
    folder = tmp_path_factory.mktemp("sanitized")
    for env_id, registered in IDS.items():
        spec = importlib.import_module(registered["vector_entry_point"].partition(":")[0] + ".spec").SPEC
        compile_object(spec, "x86-64", folder / f"{env_id}.so", FLAGS + (("-shared-libasan",) if is_clang() else ()))
    return folder


def run(folder, seed, calls):
    env = {**os.environ, **OPTIONS, "LD_PRELOAD": runtime(), "GPU_VECENV_NUM_THREADS": "2"}
    command = [sys.executable, "-m", "tests.sanitize.fuzz_calls", str(folder), str(seed), str(calls)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.parametrize("seed", range(12))
def test_random_calls_cause_no_sanitizer_error(seed, kernels):
    done = run(kernels, seed, 1500)
    assert done.returncode == 0 and done.stdout == "True\n", done.stderr[-4000:]
