"""Random specs that lie: a short run here, ten thousand specs under ``-m slow``."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpu_vecenv.spec import declared
from tests.api import spec_fuzz
from tests.api.spec_fuzz import SPECS, SpecFuzz, fuzz
from tests.marks import slow_but


@pytest.mark.parametrize("seed", slow_but([0], range(2)))
def test_random_specs_work_or_raise_typed_errors(seed):
    outcomes = fuzz(seed, 250, 2)
    assert outcomes["SpecError"] > 100 and outcomes["accepted, run"] > 0 and outcomes["accepted, not run"] > 10


def test_specs_without_a_lie_are_accepted_and_run(monkeypatch):
    monkeypatch.setattr(SpecFuzz, "_changed", lambda fuzz, spec: spec)
    assert fuzz(0, 12, len(SPECS)) == {"accepted, run": 12}


def test_an_untyped_error_names_the_lie_and_the_seed(monkeypatch):
    monkeypatch.setattr(declared, "_check_env", spec_fuzz.raises(KeyError("x")))
    with pytest.raises(KeyError) as raised:
        fuzz(5, 30, 0)
    changes, command = raised.value.__notes__
    assert ": " in changes and command == "python -m tests.api.spec_fuzz 5 30 0"


def in_a_process(seed):
    """Try 500 specs in a process of their own, so that a crash does not end the test."""
    command = [sys.executable, "-m", "tests.api.spec_fuzz", str(seed), "500", "12"]
    return seed, subprocess.run(command, capture_output=True, timeout=3600)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_random_specs_work_or_raise_typed_errors():
    with ThreadPoolExecutor(2) as pool:
        for seed, done in pool.map(in_a_process, range(100, 120)):
            assert done.returncode == 0, (seed, done.stderr[-3000:])
