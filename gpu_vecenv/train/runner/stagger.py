"""Different starts of the worlds of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpu_vecenv.train.runner.collector import Collector
from gpu_vecenv.train.runner.measure import step_limit

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

GROUPS = 32
"""Largest number of different starts."""


def stagger_starts(env: GpuVectorEnv, collector: Collector, first_world: int = 0, num_worlds: int | None = None) -> None:
    """Let groups of worlds begin at different steps of an episode, reached by random actions.

    Worlds that start together reach the same step at the same time, so each rollout shows only one part of an episode. Without a
    time limit nothing changes.

    Args:
        env: the env, after a reset.
        collector: the collector that the env is bound to.
        first_world: number of the env's first world in the run.
        num_worlds: worlds of the run; None: those of the env.
    """
    limit = step_limit(env)
    if limit == float("inf") or limit < 2:
        return
    worlds = num_worlds or env.num_worlds
    groups = int(min(GROUPS, limit, worlds))
    starts = (first_world + np.arange(env.num_worlds)) * groups // worlds
    steps, rows = max(1, int(limit) // groups), env.num_envs // env.num_worlds
    env.unbind()
    for group in range(1, groups):
        env.rollout(num_steps=steps)
        mask = starts == group
        env.reset(options={"reset_mask": mask if rows == 1 else mask[env.worlds.view.world_of_env]})
    collector.rollout.bind(env)
    collector.begin_at_end()
