"""mpe2: simple_spread in Python, one world with given actions."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from gpu_vecenv.bench.cases import SPREAD, Case
from gpu_vecenv.bench.peers.one_world import PATH, one_process
from gpu_vecenv.bench.subject import Subject

NAME, DISTRIBUTION = "mpe2", "mpe2"


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """Spread as it is by default."""
    return [{"path": PATH, "device": "cpu", "num_envs": case.worlds}] if (case.env, case.params) == (SPREAD, {}) else []


def make(path: str, device: str, num_envs: int) -> Subject:
    """Steps of PettingZoo's parallel interface."""
    from mpe2 import simple_spread_v3

    env = simple_spread_v3.parallel_env()
    names = env.possible_agents
    drawn = np.random.default_rng(0).integers(0, 5, (8, len(names))).tolist()
    batches = cycle([dict(zip(names, actions, strict=True)) for actions in drawn])

    def step() -> bool:
        env.step(next(batches))
        return not env.agents

    return one_process(step, env.reset, num_envs, len(names))
