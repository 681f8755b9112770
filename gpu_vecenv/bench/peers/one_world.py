"""Packages whose envs are one world in Python: a step of all worlds takes as many times as long in one process."""

from __future__ import annotations

from collections.abc import Callable

from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local

PATH = "one process"


def one_process(step: Callable[[], bool], reset: Callable[[], object], num_envs: int, agents: int) -> Subject:
    """Return steps of one world, of which ``num_envs`` count as a step of all worlds.

    Args:
        step: makes a step and returns True at the end of an episode.
        reset: starts an episode; its time counts.
        num_envs: worlds of the case.
        agents: agents of a world.
    """

    def call() -> None:
        if step():
            reset()

    reset()
    return Subject(Local(call, "cpu"), 1 / num_envs, {"agents": agents})
