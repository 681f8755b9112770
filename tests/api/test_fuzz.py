"""Random calls of envs and of wrapped envs, valid and invalid ones: a short run here, a million calls under ``-m slow``."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api import fuzz_wrappers
from tests.api.fuzz import ODD_VALUES, Fuzz, fuzz
from tests.devices import DEVICES
from tests.marks import slow_but


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", slow_but([0], range(4)))
def test_random_calls_succeed_or_raise_typed_errors(seed, device):
    outcomes = fuzz(seed, 700, device)
    assert outcomes["step ok"] > 50 and sum(count for end, count in outcomes.items() if end.endswith("Error")) > 20


@pytest.mark.parametrize("seed", slow_but([0], range(2)))
def test_random_calls_of_wrapped_envs_give_what_plain_references_give(seed):
    outcomes = fuzz_wrappers.fuzz(seed, 600)
    assert outcomes["step ok"] > 100 and sum(count for end, count in outcomes.items() if end.endswith("Error")) > 30


@pytest.mark.parametrize("break_it", [
    lambda fuzz: fuzz.reference._returns[fuzz.stack.index("EpisodeStatistics")].__setitem__(0, 77.0),
    lambda fuzz: fuzz.wrapped[0].unwrapped.step(fuzz._valid()),
], ids=["another return", "a step of one env alone"])  # fmt: skip
def test_a_difference_from_the_reference_raises_an_error(break_it, monkeypatch):
    monkeypatch.setattr(fuzz_wrappers, "KINDS", {"pendulum": fuzz_wrappers.KINDS["pendulum"]})
    monkeypatch.setattr(fuzz_wrappers, "MODES", ("next_step",))
    names = ("EpisodeStatistics", "ClipAction")
    monkeypatch.setattr(fuzz_wrappers, "WRAPPERS", {name: fuzz_wrappers.WRAPPERS[name] for name in names})
    monkeypatch.setattr(fuzz_wrappers, "ODD", 0.0)
    calls = fuzz_wrappers.WrapperFuzz(0)
    while "EpisodeStatistics" not in getattr(calls, "stack", []):
        calls._make()
    calls._step()
    break_it(calls)
    with pytest.raises(AssertionError, match="step pendulum next_step"):
        for _ in range(5):  # an episode has four steps
            calls._step()


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


def in_a_process(run):
    """Make calls in a process of their own, so that a crash does not end the test."""
    return run, subprocess.run([sys.executable, "-m", *map(str, run)], capture_output=True, timeout=3600)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_million_random_calls_succeed_or_raise_typed_errors():
    bare = [("tests.api.fuzz", seed, 3_000) for seed in range(100, 200)]
    wrapped = [("tests.api.fuzz_wrappers", seed, 20_000) for seed in range(100, 135)]
    assert sum(calls for *_, calls in bare + wrapped) == 1_000_000
    with ThreadPoolExecutor(2) as pool:
        for run, done in pool.map(in_a_process, wrapped + bare):
            assert done.returncode == 0, (run, done.stderr[-3000:])
