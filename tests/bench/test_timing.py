"""Confidence intervals of medians, compared with a count of all cases; the order in which subjects are timed."""

from itertools import pairwise, product
from math import ceil

import numpy as np
import pytest

from gpu_vecenv.bench import env_only, timing
from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.floors import step_bytes
from gpu_vecenv.bench.run import measure
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import CHUNK, Local, Reading, interleaved, median_interval
from tests.roles import town


class Fake:
    """Subject whose calls take one second each; it appends its reads to the list ``diary``."""

    def __init__(self, name, diary, most_calls=None, fails_at=None):
        self.name, self.diary, self.most_calls, self.fails_at = name, diary, most_calls, fails_at

    def read(self, calls):
        if self.fails_at is not None and self.diary.count((self.name, calls)) >= self.fails_at:
            raise ValueError(f"{self.name} broke")
        self.diary.append((self.name, calls))
        return Reading(float(calls), calls / 4)


@pytest.mark.parametrize(("n", "confidence"), [(1, 0.9), (5, 0.9), (6, 0.5), (9, 0.9), (12, 0.95)])
def test_the_coverage_of_the_interval_is_right(n, confidence):
    """Each value is above or below the true median with equal chances, so the test counts all 2^n patterns."""
    low, high, coverage = median_interval(range(n), confidence)
    outside = sum(sum(above) <= low or sum(above) >= n - low for above in product((0, 1), repeat=n))
    assert high == n - 1 - low
    assert coverage == pytest.approx(max(0.0, 1 - outside / 2**n))
    assert coverage >= confidence or low == 0


def test_the_interval_of_five_rounds_is_lowest_to_highest():
    assert median_interval([3.0, 1.0, 2.0, 5.0, 4.0]) == (1.0, 5.0, 0.9375)


def test_subjects_take_turns_and_one_that_fails_is_left_out():
    diary = []
    taken = interleaved({"a": Fake("a", diary), "b": Fake("b", diary, fails_at=3), "c": Fake("c", diary)}, 4, 1.0)
    assert isinstance(taken["b"], ValueError)
    assert (taken["a"].median, taken["a"].host, taken["a"].hosts, taken["a"].calls) == (1.0, 0.25, (0.25,) * 4, 1)
    assert [name for name, _ in diary[-5:]] == ["c", "a", "c", "a", "c"][-5:]


def test_calls_fill_the_sample_time_up_to_most_calls():
    diary = []
    taken = interleaved({"long": Fake("long", diary), "short": Fake("short", diary, most_calls=20)}, 3, 50.0)
    assert (taken["long"].calls, taken["short"].calls) == (50, 20)
    assert taken["short"].median == 1.0


class Clock:
    """Simulated clock: calls, the code between them and waits take given times."""

    def __init__(self, monkeypatch):
        self.now, self.diary = 0.0, []
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(timing, "synchronise", lambda device: self.takes("wait", 1000))

    def takes(self, what, seconds):
        self.diary.append(what)
        self.now += seconds

    def call(self):
        cold = 50 if self.diary[-1] == "wait" else 0
        self.takes("call", 1 + cold)


@pytest.mark.parametrize("calls", [1, 2, 7, CHUNK, 3 * CHUNK + 1])
def test_host_seconds_leave_out_the_cost_of_the_first_call_after_a_wait(calls, monkeypatch):
    clock = Clock(monkeypatch)
    reading = Local(clock.call, "cuda:0").read(calls)
    waits = clock.diary.count("wait")
    assert clock.diary.count("call") == calls
    assert reading.host_seconds == (51 if calls == 1 else pytest.approx(calls))
    assert reading.seconds == calls + 50 * (waits - 1) + 1000 * (waits - 1)
    assert waits == 1 + ceil(calls / CHUNK)


@pytest.mark.parametrize(("lap", "calls", "laps"), [(64, 1000, 16), (1, 5, 5), (300, 300, 1)])
def test_time_between_laps_counts_as_time_but_not_as_host_time(lap, calls, laps, monkeypatch):
    clock = Clock(monkeypatch)
    reading = Local(clock.call, "cuda:0", lap=lap, between=lambda: clock.takes("between", 10)).read(calls)
    assert clock.diary.count("call") == calls and clock.diary.count("between") == laps
    assert clock.diary[-2:] == ["between", "wait"]
    assert reading.host_seconds == pytest.approx(calls)
    cold = sum(pair == ("wait", "call") for pair in pairwise(clock.diary))
    assert reading.seconds == calls + 50 * cold + 10 * laps + 1000 * (clock.diary.count("wait") - 1)


class VaryingCost:
    """Subject with another host time in each round; ``turns`` lists the subjects in the order of their reads."""

    most_calls = 1

    def __init__(self, *costs, turns=None):
        self.costs, self.turns = iter(costs), [] if turns is None else turns

    def read(self, calls):
        self.turns.append(self)
        return Reading(10.0, next(self.costs))


def test_a_step_is_compared_with_the_bare_launch_of_its_own_round():
    costs = (7.0, 13.0, 8.0)
    ways = {"python": lambda: Subject(VaryingCost(*costs)), "graph": lambda: Subject(VaryingCost(*costs), steps=2)}
    host_probes = {"bare_launch_s": lambda: VaryingCost(5.0, 9.0, 6.5), "python_loop_s": lambda: VaryingCost(1.0, 2.0, 1.5)}
    rows = measure(Case("WarpCartPole-v1", 10), "env", ways, "cpu", {}, 3, None, host_probes=host_probes)
    python, graph = rows
    assert [python[name] for name in ("host_s", "bare_launch_s", "python_loop_s")] == [8.0, 6.5, 1.5]
    assert python["host_over_bare_s"] == 2.0  # median of 2, 4 and 1.5; the difference of medians is 1.5
    assert graph["python_loop_s"] == 1.5 and "host_over_bare_s" not in graph


def test_the_bare_launch_is_timed_right_before_the_first_step():
    turns = []
    bare, step, peer = (VaryingCost(1.0, 1.0, turns=turns) for _ in range(3))
    case = Case("WarpCartPole-v1", 10)
    ways, host_probes = {"python": lambda: Subject(step)}, {"bare_launch_s": lambda: bare}
    peers = [("other", {"path": "step", "device": "cpu"}, lambda: Subject(peer))]
    measure(case, "env", ways, "cpu", {}, 2, None, peers, host_probes)
    assert turns == 2 * [bare, step, peer]
    *_, last = env_only.host_probes(case, "cuda:0")
    first, *_ = env_only.ways(case, "cuda:0")
    assert (last, first) == ("bare_launch_s", "python_copy_false")


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_the_bytes_of_a_step_with_metrics_are_those_of_its_arrays(mode):
    """Five citizens and a mayor: wealth and idle_until of 5, tax, two metrics and t are read and written."""
    env = town.make_vec(num_envs=3, device="cpu", array="numpy", autoreset_mode=mode)
    env.reset(seed=0)
    results = env.step({"citizen": np.zeros((3, 5), np.int32), "mayor": np.zeros((3, 1, 2), np.float32)})
    rows = 5 * (4 * 4 + 3) + 6 * 4  # observations and masks of citizens, observation of the mayor
    world = 4 + 3 + 6 + 6 * 4  # reward; terminated, truncated and ended; agent_alive and agent_reward
    moved = step_bytes(env, results, 17)
    assert moved == {"state": 3 * 2 * 4 * (5 + 5 + 1 + 2 + 1), "results": 3 * (rows + world), "actions": 17}
