"""Threads that share a launch: each world is stepped once, and the threads end with their env."""

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

from gpu_vecenv.backend import cpu
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.envs import cartpole
from gpu_vecenv.errors import ActionError, DeviceError, ParameterError


def make(threads, worlds=97):
    env = cartpole.make_vec(worlds, device="cpu", array="numpy")
    env.worlds.backend.close()
    env.worlds.backend = CpuBackend(env.layout, threads=threads)
    env.reset(seed=0)
    return env


def run(env, steps, pause=0.0):
    generator = np.random.default_rng(1)
    for _ in range(steps):
        obs = env.step(generator.integers(0, 2, env.num_envs, dtype=np.int32))[0]
        time.sleep(pause)
    return obs, *env.get_state().values()


def alive(before):
    return [t for t in threading.enumerate() if t.name == "gpu_vecenv" and t not in before]


def gone(before):
    until = time.monotonic() + 20
    while alive(before) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(before)


@pytest.fixture(autouse=True)
def share_all(monkeypatch):
    """Use all threads, even for few worlds."""
    monkeypatch.setattr(cpu, "MIN_AGENTS_PER_THREAD", 1)


@pytest.mark.parametrize("worlds", [2, 31, 97, 1000])
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_step_each_world_once(threads, worlds):
    for one, other in zip(run(make(threads, worlds), 300), run(make(1, worlds), 300), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sleeping_threads_step_their_worlds():
    for one, other in zip(run(make(3), 100, pause=0.003), run(make(1), 100), strict=True):
        np.testing.assert_array_equal(one, other)


def test_threads_end_when_the_env_closes_or_is_dropped():
    before = threading.enumerate()
    env = make(3)
    run(env, 5)
    assert len(alive(before)) == 2
    env.close()
    assert gone(before)
    env = make(3)
    run(env, 5)
    del env
    gc.collect()
    assert gone(before)


def test_only_the_first_step_may_start_threads():
    """Threads are counted by the system, from outside Python."""
    env = make(3)
    run(env, 1)
    before = set(os.listdir("/proc/self/task"))
    for _ in range(50):
        run(env, 4)
        env.rollout(np.zeros((3, env.num_envs), np.int32))
        assert set(os.listdir("/proc/self/task")) == before


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_thread_that_cannot_start_ends_the_threads_started_before(monkeypatch, most):
    """Imitates a system that allows this user to start only ``most`` more threads."""
    before, tasks, started = threading.enumerate(), set(os.listdir("/proc/self/task")), []
    start = threading.Thread.start

    def limited(thread):
        if len(started) == most:
            raise RuntimeError("can't start new thread")
        start(thread)
        started.append(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    monkeypatch.setenv("GPU_VECENV_NUM_THREADS", "5")
    with pytest.raises(DeviceError, match=f"5 threads .* started {most} of the other 4: .*Set GPU_VECENV_NUM_THREADS to fewer"):
        cartpole.make_vec(97, device="cpu", array="numpy")
    assert len(started) == most and not alive(before)
    until = time.monotonic() + 20
    while not set(os.listdir("/proc/self/task")) <= tasks:  # the system still lists a thread shortly after its end
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("given", ["", "0", "-1", "+3", " 3", "3 ", "3\n", "1_0", "1.0", "0x2", "²", "३", "4097", "9" * 5000])
def test_invalid_numbers_of_threads_raise_an_error(monkeypatch, given):
    monkeypatch.setenv("GPU_VECENV_NUM_THREADS", given)
    with pytest.raises(ParameterError, match="GPU_VECENV_NUM_THREADS must be an integer from 1 to 4096, got"):
        cartpole.make_vec(4, device="cpu", array="numpy")


@pytest.mark.parametrize("given", [1, 10, 4096])
def test_the_environment_variable_sets_the_number_of_threads(monkeypatch, given):
    monkeypatch.setenv("GPU_VECENV_NUM_THREADS", str(given))
    assert cpu.num_threads() == given


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
@pytest.mark.parametrize("pause", [0.0, 0.001])
def test_a_forked_child_steps_without_the_threads(pause, monkeypatch):
    """The child has none of the threads, whether they were working, spinning or asleep."""
    monkeypatch.setattr(cpu, "MIN_AGENTS_PER_THREAD", 1)
    env, twin = make(4), make(1)
    actions = np.zeros(97, np.int64)
    for _ in range(20):
        expected = twin.step(actions)[0]
        np.testing.assert_array_equal(env.step(actions)[0], expected)
        time.sleep(pause)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            same = (env.step(actions)[0] == twin.step(actions)[0]).all()
            env.close()
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    env.step(actions)  # the parent still has its threads
    assert env.worlds.backend.threads is not None


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("bad", [-1, 2, 2**31 - 1])
@pytest.mark.parametrize("place", [0, 50, 96])
def test_an_invalid_action_steps_no_world(place, bad, dtype):
    env = make(2)
    state = env.get_state()
    actions = np.zeros(97, dtype)
    actions[place] = bad
    with pytest.raises(ActionError, match=rf"0\.\.1, got {bad} at \[{place}\]"):
        env.step(actions)
    for name, values in env.get_state().items():
        np.testing.assert_array_equal(values, state[name])
    env.check()
