"""Calls of one env from two threads: the second call raises an error and the first is not affected."""

import os
import pickle
import signal
import threading

import numpy as np
import pytest

from gpu_vecenv.errors import ClosedError, ConcurrentCallError
from tests.api.envs import ENVS, assert_same, make, random_actions

CALLS = {
    "reset": lambda env: env.reset(),
    "step": lambda env: env.step(np.zeros(env.action_space.shape, int)),
    "rollout": lambda env: env.rollout(num_steps=2),
    "observe": lambda env: env.observe(),
    "get_state": lambda env: env.get_state(),
    "set_state": lambda env: env.set_state({"t": np.zeros(env.num_worlds, np.int32)}),
    "copy_worlds": lambda env: env.copy_worlds([0], [1]),
    "set_reset_pool": lambda env: env.set_reset_pool(None),
    "get_reset_pool": lambda env: env.get_reset_pool(),
    "bind": lambda env: env.bind(obs=np.zeros((3, *env.observation_space.shape), np.float32)),
    "unbind": lambda env: env.unbind(),
    "render": lambda env: env.render(),
    "check": lambda env: env.check(),
    "pickle": pickle.dumps,
}


def in_a_thread(call):
    """Make a call in another thread and return the error that it raised, or None."""
    raised = []

    def run():
        try:
            call()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    return raised[0] if raised else None


@pytest.mark.parametrize("call", CALLS)
def test_a_call_from_a_second_thread_raises_an_error(call, monkeypatch):
    env = make("cartpole").unwrapped
    env.reset(seed=0)
    launch, seen = env.worlds.backend.launch, []

    def meanwhile(*args):
        seen.append(in_a_thread(lambda: CALLS[call](env)))
        return launch(*args)

    monkeypatch.setattr(env.worlds.backend, "launch", meanwhile)
    twin = make("cartpole").unwrapped
    twin.reset(seed=0)
    assert_same(env.step(np.ones(3, int))[:4], twin.step(np.ones(3, int))[:4])
    assert [type(error) for error in seen] == [ConcurrentCallError]
    assert "this env is already in a call" in str(seen[0])
    monkeypatch.undo()
    assert in_a_thread(lambda: CALLS[call](env)) is None  # a call is allowed after the call of another thread


def test_threads_that_step_one_env_do_not_hang():
    """4,096 worlds use the thread pool, which would hang if two threads started a launch at once."""
    env = make("cartpole", num_worlds=4096, copy=False)
    env.reset(seed=0)
    actions, refused, others = np.zeros(4096, np.int64), [], []

    def run():
        for _ in range(300):
            try:
                env.step(actions)
            except ConcurrentCallError:
                refused.append(1)
            except Exception as error:
                others.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads) and others == []
    assert (env.unwrapped.get_state("episode")["episode"] > 0).all()


def test_closing_waits_for_a_call_of_another_thread(monkeypatch):
    env = make("cartpole").unwrapped
    env.reset(seed=0)
    launch, began, go_on, order = env.worlds.backend.launch, threading.Event(), threading.Event(), []

    def slow(*args):
        began.set()
        assert go_on.wait(60)
        order.append("stepped")
        launch(*args)

    monkeypatch.setattr(env.worlds.backend, "launch", slow)
    stepping = threading.Thread(target=lambda: env.step(np.zeros(3, int)))
    stepping.start()
    assert began.wait(60)
    closing = threading.Thread(target=lambda: (env.close(), order.append("closed")))
    closing.start()
    closing.join(0.2)
    assert closing.is_alive() and order == []
    assert isinstance(in_a_thread(lambda: env.observe()), ClosedError)
    go_on.set()
    for thread in (stepping, closing):
        thread.join(60)
    assert order == ["stepped", "closed"]
    assert in_a_thread(env.close) is None


def test_two_threads_may_close_an_env_at_once():
    for _ in range(20):
        env = make("cartpole")
        assert [error for error in [in_a_thread(env.close), in_a_thread(env.close)] if error] == []


def test_a_signal_handler_during_a_call_may_only_close_the_env(monkeypatch):
    """Other calls from the handler raise an error, since they would overwrite arrays that the interrupted call still uses."""
    env, twin = make("cartpole").unwrapped, make("cartpole").unwrapped
    env.reset(seed=0)
    twin.reset(seed=0)
    launch, seen = env.worlds.backend.launch, []

    def interrupted(*args):
        for call in (lambda: env.step(np.ones(3, int)), env.observe):
            with pytest.raises(ConcurrentCallError) as raised:
                call()
            seen.append(raised.value)
        return launch(*args)

    monkeypatch.setattr(env.worlds.backend, "launch", interrupted)
    assert_same(env.step(np.zeros(3, int))[:4], twin.step(np.zeros(3, int))[:4])
    assert len(seen) == 2
    monkeypatch.setattr(env.worlds.backend, "launch", lambda *args: (env.close(), launch(*args)))
    env.step(np.zeros(3, int))
    with pytest.raises(ClosedError):
        env.step(np.zeros(3, int))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_a_child_forked_during_a_call_of_another_thread_can_step(monkeypatch):
    env = make("cartpole").unwrapped
    env.reset(seed=0)
    launch, began, go_on = env.worlds.backend.launch, threading.Event(), threading.Event()

    def slow(*args):
        began.set()
        assert go_on.wait(60)
        launch(*args)

    monkeypatch.setattr(env.worlds.backend, "launch", slow)
    stepping = threading.Thread(target=lambda: env.step(np.zeros(3, int)))
    stepping.start()
    assert began.wait(60)
    child = os.fork()
    if child == 0:
        env.worlds.backend.launch = launch
        signal.alarm(20)
        env.step(np.zeros(3, int))
        env.close()
        os._exit(0)
    go_on.set()
    stepping.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_envs_in_threads_of_their_own_give_the_same_results():
    def play(name, out):
        env = make(name)
        env.reset(seed=1)
        out[name] = [env.step(action)[:4] for action in random_actions(env, 20)]

    alone, together = {}, {}
    for name in ENVS:
        play(name, alone)
    threads = [threading.Thread(target=play, args=(name, together)) for name in ENVS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for name in ENVS:
        for a, b in zip(alone[name], together[name], strict=True):
            assert_same(a, b, name)
