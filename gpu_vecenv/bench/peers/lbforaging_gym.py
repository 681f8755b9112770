"""lbforaging: level-based foraging in Python, one world with given actions."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from gpu_vecenv.bench.cases import COOP, FORAGING, Case
from gpu_vecenv.bench.peers.one_world import PATH, one_process
from gpu_vecenv.bench.subject import Subject

NAME, DISTRIBUTION = "lbforaging", "lbforaging"


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """Two players and two foods of 8 x 8 cells that both must load."""
    return [{"path": PATH, "device": "cpu", "num_envs": case.worlds}] if (case.env, case.params) == (FORAGING, COOP) else []


def make(path: str, device: str, num_envs: int) -> Subject:
    """Steps without Gymnasium's checks of spaces."""
    import gymnasium
    import lbforaging  # noqa: F401

    env: Any = gymnasium.make("Foraging-8x8-2p-2f-coop-v3").unwrapped
    batches = cycle(np.random.default_rng(0).integers(0, 6, (8, 2)).tolist())
    return one_process(lambda: bool(env.step(next(batches))[2]), env.reset, num_envs, 2)
