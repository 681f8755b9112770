"""Gymnasium's own vector env of CartPole: NumPy over all envs at once (``vector_entry_point``)."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.peers import CLASSIC_IDS
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local

NAME, DISTRIBUTION = "Gymnasium", "gymnasium"
MAX_WORLDS = 1_000_000


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """CartPole; Gymnasium runs on the CPU in runs of any device."""
    if case.env != "WarpCartPole-v1" or case.worlds > MAX_WORLDS:
        return []
    return [{"path": "vector_entry_point", "device": "cpu", "env_id": CLASSIC_IDS[case.env], "num_envs": case.worlds}]


def make(path: str, device: str, env_id: str, num_envs: int) -> Subject:
    """Steps from Python with given actions."""
    import gymnasium

    env = gymnasium.make_vec(env_id, num_envs=num_envs, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    batches = cycle(np.random.default_rng(0).integers(0, 2, (8, num_envs)))
    return Subject(Local(lambda: env.step(next(batches)), "cpu"), close=env.close)
