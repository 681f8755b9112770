"""Two threads in one env: the second gets an error, the first goes on undisturbed; an env a thread needs nothing."""

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
}


def in_a_thread(call):
    """What a call in another thread raised, or None."""
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
def test_a_second_thread_is_refused(call, monkeypatch):
    env = make("cartpole").unwrapped
    env.reset(seed=0)
    launch, seen = env._backend.launch, []

    def meanwhile(*args):
        seen.append(in_a_thread(lambda: CALLS[call](env)))
        return launch(*args)

    monkeypatch.setattr(env._backend, "launch", meanwhile)
    twin = make("cartpole").unwrapped
    twin.reset(seed=0)
    assert_same(env.step(np.ones(3, int))[:4], twin.step(np.ones(3, int))[:4])
    assert [type(error) for error in seen] == [ConcurrentCallError]
    assert "another thread is in a call of this env" in str(seen[0])
    monkeypatch.undo()
    assert in_a_thread(lambda: CALLS[call](env)) is None  # one thread after the other is fine


def test_threads_that_step_one_env_end():
    """Worlds enough for a pool of threads, which served two callers at once by turning for ever."""
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


def test_closing_waits_for_a_step_of_another_thread():
    env = make("cartpole", num_worlds=50_000)
    env.reset(seed=0)
    actions, started = np.zeros(50_000, np.int64), threading.Event()

    def run():
        while True:
            env.step(actions)
            started.set()

    ended = []
    thread = threading.Thread(target=lambda: ended.append(in_a_thread(run)))
    thread.start()
    assert started.wait(60)
    env.close()
    thread.join(60)
    assert [type(error) for error in ended] == [ClosedError]


def test_one_env_per_thread_steps_as_alone():
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
