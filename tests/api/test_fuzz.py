"""Random calls over all ids, with valid and invalid arguments: a short run here, a million calls under ``-m slow``."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api.fuzz import ODD_VALUES, Fuzz, fuzz
from tests.devices import DEVICES


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(4))
def test_random_calls_succeed_or_raise_typed_errors(seed, device):
    outcomes = fuzz(seed, 700, device)
    assert outcomes["step ok"] > 50 and sum(count for end, count in outcomes.items() if end.endswith("Error")) > 20


def test_a_difference_between_the_two_envs_raises_an_error():
    for seed in range(9):
        calls = Fuzz(seed)
        calls._make_envs()
        if calls.envs:
            break
    one, other = calls.envs
    other.set_state({"t": [5] * other.num_worlds})
    with pytest.raises(AssertionError, match="get_state t differs"):
        calls._both("get_state", [lambda: one.get_state(), lambda: other.get_state()])


def test_an_untyped_error_names_the_seed_that_reproduces_it(monkeypatch):
    monkeypatch.setattr(Fuzz, "run", lambda fuzz, calls: ODD_VALUES[-1].missing)
    with pytest.raises(AttributeError) as raised:
        fuzz(11, 5)
    assert raised.value.__notes__ == ["python -m tests.api.fuzz 11 5 cpu"]


def in_a_process(seed):
    """Make three thousand calls in a process of their own, so that a crash does not end the test."""
    return seed, subprocess.run([sys.executable, "-m", "tests.api.fuzz", str(seed), "3000"], capture_output=True, timeout=3600)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_million_random_calls_succeed_or_raise_typed_errors():
    with ThreadPoolExecutor(2) as pool:
        for seed, done in pool.map(in_a_process, range(100, 434)):
            assert done.returncode == 0, (seed, done.stderr[-3000:])
