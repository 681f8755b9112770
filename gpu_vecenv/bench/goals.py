"""Time of training until the mean return of the last 100 episodes reaches a goal, seed after seed."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Any

import torch

from gpu_vecenv.bench.settings import Goal
from gpu_vecenv.bench.subject import Maker, Subject
from gpu_vecenv.bench.timing import Reading, synchronise
from gpu_vecenv.bench.training import WARM_UP, WAYS, require_way, run_iterations
from gpu_vecenv.train import Trainer
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import evaluation_seed
from gpu_vecenv.train.runner.measure import measure
from gpu_vecenv.train.runner.players import Players

EPISODES = 256
"""Fresh episodes on which a trained policy is evaluated."""


def ways(goal: Goal, device: str) -> dict[str, Maker]:
    """Makers of runs by kernels."""
    names = ("fused", "eager") if device == "cpu" else ("fused", "graph", "eager")
    return {way: functools.partial(_subject, goal, way, device) for way in names}


def _subject(goal: Goal, way: str, device: str) -> Subject:
    timed = ToGoal(goal, way, device)
    return Subject(timed, 1, timed.facts)


class ToGoal:
    """Each reading trains another seed.

    A run first trains one iteration after the other, until the return is reached; its policies are then evaluated. The time is
    that of as many further iterations of the same run, which has its graph by then, with as many in flight as it has. Their
    shapes and launches are the same.

    Attributes:
        facts: ``iterations`` and ``evaluated``, for each seed the number of iterations to the goal or, without it, to the end of
            the run, and the mean return of the policy on fresh episodes.
    """

    most_calls = 1

    def __init__(self, goal: Goal, way: str, device: str) -> None:
        self._goal, self._way, self._device = goal, way, device
        self.facts: dict[str, Any] = {"iterations": [], "evaluated": []}

    def read(self, calls: int) -> Reading:
        """Return the seconds that the next seed takes to the goal."""
        goal, seed = self._goal, len(self.facts["iterations"])
        more = {"seed": seed, "schedule_steps": goal.total_steps}
        config = goal.config(self._device, torch.get_num_threads(), **WAYS[self._way], **more)
        with contextlib.closing(Trainer(config, quiet=True)) as trainer:
            reached = self._reach(trainer)
            self.facts["iterations"].append(trainer.iteration)
            self.facts["evaluated"].append(evaluated(trainer))
            iterations = trainer.iteration
            run_iterations(trainer, WARM_UP)  # a policy that learned at once has no graph yet
            require_way(trainer)
            synchronise(self._device)
            start = time.perf_counter()
            run_iterations(trainer, iterations)
            seconds = time.perf_counter() - start
        return Reading(seconds, seconds, reached)

    def _reach(self, trainer: Trainer) -> bool:
        """Train up to the goal, or up to the end of the run; return True if the goal was reached."""
        (name,) = trainer.policies
        while trainer.iteration * trainer.steps_per_iteration < self._goal.total_steps:
            trainer.launch()
            if trainer.finish()[f"recent_return/{name}"] >= self._goal.goal:
                return True
        return False


def evaluated(trainer: Trainer) -> float:
    """Mean return of the only policy over ``EPISODES`` worlds that its training did not have, with drawn actions."""
    with contextlib.closing(make_env(trainer.config, EPISODES)) as env:
        players = Players(env, trainer.config.policy_map, trainer.policies)
        (mean,) = measure(players, evaluation_seed(trainer.config.seed), deterministic=False).mean_return.values()
    return mean
