"""EnvPool: C++ envs in threads on the CPU, all stepped in each call."""

from __future__ import annotations

import os
from itertools import cycle
from typing import Any

import numpy as np

from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.peers import CLASSIC_IDS
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local

NAME, DISTRIBUTION = "EnvPool", "envpool"
MAX_WORLDS = 100_000


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """Classic control; EnvPool runs on the CPU in runs of any device."""
    if case.env not in CLASSIC_IDS or case.worlds > MAX_WORLDS:
        return []
    return [{"path": "sync", "device": "cpu", "env_id": CLASSIC_IDS[case.env], "num_envs": case.worlds}]


def make(path: str, device: str, env_id: str, num_envs: int) -> Subject:
    """Steps from Python with given actions, one thread for each core."""
    import envpool

    threads = len(os.sched_getaffinity(0))
    env = envpool.make(env_id, env_type="gymnasium", num_envs=num_envs, num_threads=threads)
    env.reset()
    space, random = env.action_space, np.random.default_rng(0)
    if hasattr(space, "n"):
        batches: list[Any] = list(random.integers(0, space.n, (8, num_envs)).astype(np.int32))
    else:
        batches = list(random.uniform(space.low, space.high, (8, num_envs, *space.shape)).astype(np.float32))
    next_actions = cycle(batches)
    return Subject(Local(lambda: env.step(next(next_actions)), "cpu"), facts={"threads": threads}, close=env.close)
