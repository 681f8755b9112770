"""rware: the robot warehouse in Python, one world with given actions."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from gpu_vecenv.bench.cases import RWARE, WAREHOUSE, Case
from gpu_vecenv.bench.peers.one_world import PATH, one_process
from gpu_vecenv.bench.subject import Subject

NAME, DISTRIBUTION = "rware", "rware"


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """The small warehouse with four robots and eight requests."""
    return [{"path": PATH, "device": "cpu", "num_envs": case.worlds}] if (case.env, case.params) == (RWARE, WAREHOUSE) else []


def make(path: str, device: str, num_envs: int) -> Subject:
    """Steps without Gymnasium's checks of spaces."""
    import gymnasium
    import rware  # noqa: F401

    env: Any = gymnasium.make("rware-small-4ag-easy-v2").unwrapped
    batches = cycle(np.random.default_rng(0).integers(0, 5, (8, 4)).tolist())
    return one_process(lambda: bool(env.step(next(batches))[2]), env.reset, num_envs, 4)
