"""The trainer's kernels under sanitizers on the CPU: their own tests, on kernels that are built with one."""

import os
import subprocess
import sys

import pytest

from tests.sanitize.faults import RACE
from tests.sanitize.runtime import runtime

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

BOUNDS = "-O1 -g -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all"
"""Division by zero is not reported: IEEE 754 defines its result."""
THREADS = "-O1 -g -fsanitize=thread"
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": "exitcode=66",
    "GPU_VECENV_NUM_THREADS": "2",
}  # fmt: skip
TRAIN = "tests/train/"
RUNS = {
    "replay buffers": ("test_replay.py", "not 100_000"),
    "draws": ("test_draw.py", ""),
    "values": ("test_q_policy.py test_pqn.py", "update_is or greedy or single or values"),
    "recurrences, order, statistics": ("test_program_builds.py", "threads"),
    "a GRU": ("fused/test_fused_recurrent.py", "(float64 or values) and (leavers or odd) or updates and leavers"),
    "networks": ("fused/test_fused_gradient.py", "float64 and (odd or split or leavers or wide)"),
    "rows of wide networks": ("fused/test_fused_act.py", "float64 and wide"),
    "shared parts": ("fused/test_fused_shared.py", "float64"),
    "many heads": ("fused/test_many_heads.py", "float64 and (masked or equal)"),
    "off-policy gradients on the host": ("fused/test_host_off_policy.py", ""),
    "noise": ("test_noise.py", ""),
}
"""Files of tests, and which of their tests."""
RACES = {
    "between threads": ("test_program_builds.py", "threads_change_no_bit and 3"),
    "between lanes": ("test_program_builds.py", "lanes_and_instruction_sets_change_no_bit and 3 and not x86"),
    "between threads, a GRU": ("fused/test_fused_recurrent.py", "updates_are_those_of_torch and discrete"),
}


def run(files, chosen, flags, folder, marks):
    """Run tests of the trainer with a sanitizer; return the process, with what the sanitizer wrote."""
    library = "tsan" if flags == THREADS else "asan"
    environment = {**os.environ, **OPTIONS, "SANITIZER": flags, "LD_PRELOAD": runtime(library)}
    environment["GPU_VECENV_CACHE_DIR"] = str(folder / "kernels")  # other runs must not load kernels that are built with one
    environment["TSAN_OPTIONS"] += f":log_path={folder / 'races'}"
    # Addresses at random places leave no room for a thread sanitizer's tables.
    command = ["setarch", "-R"] if flags == THREADS else []
    command += [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.sanitize.sanitized_programs", "-p", "no:cacheprovider"]
    command += ["--timeout", "1500"]
    command += ["-m", marks, *(TRAIN + file for file in files.split()), *(["-k", chosen] if chosen else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1700, check=False)
    return done, "".join(path.read_text() for path in folder.glob("races*"))


@pytest.mark.parametrize("name", RUNS)
def test_kernels_of_the_trainer_access_nothing_outside_of_arrays(name, tmp_path):
    done, _ = run(*RUNS[name], BOUNDS, tmp_path, "not gpu and not slow")
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-3000:] + done.stderr[-4000:]


@pytest.mark.parametrize("name", RACES)
def test_kernels_of_the_trainer_have_no_race(name, tmp_path):
    done, said = run(*RACES[name], THREADS, tmp_path, "not gpu")
    assert done.returncode == 0 and " passed" in done.stdout and RACE not in said, said[:4000] + done.stdout[-3000:]
