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


def stagger_starts(env: GpuVectorEnv, collector: Collector) -> None:
    """Let groups of worlds begin at different steps of an episode, reached by random actions.

    Worlds that start together reach the same step at the same time, so each rollout shows only one part of an episode. Without a
    time limit nothing changes.

    Args:
        env: the env, after a reset.
        collector: the collector that the env is bound to.
    """
    limit = step_limit(env)
    if limit == float("inf") or limit < 2:
        return
    groups = int(min(GROUPS, limit, env.num_worlds))
    starts = np.arange(env.num_worlds) * groups // env.num_worlds
    steps, rows = max(1, int(limit) // groups), env.num_envs // env.num_worlds
    env.unbind()
    for group in range(1, groups):
        env.rollout(num_steps=steps)
        mask = starts == group
        env.reset(options={"reset_mask": mask if rows == 1 else mask[env.worlds.view.world_of_env]})
    collector.rollout.bind(env)
    collector.begin_at_end()
