"""A few steps of an env, in this process or in a child process."""

import multiprocessing

import gymnasium
import numpy as np


def episode() -> bytes:
    """Bytes of the observations of 20 steps of four worlds."""
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device="cpu", array="numpy")
    env.reset(seed=0)
    seen = [env.step(np.array([0, 1, 0, 1]))[0].tobytes() for _ in range(20)]
    env.close()
    return b"".join(seen)


def in_child(function):
    """Result of a function called in a child process: a signal may end it, and a process loads a library only once."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(function()))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    return receiver.recv()
