"""PureJaxRL's PPO on gymnax's CartPole from the folder of its scripts: whole training in one jitted call; compiling is not timed.

Its wrappers import brax and navix, which CartPole does not use; empty modules stand in for them.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpu_vecenv.bench.cases import CARTPOLE
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local, Reading

if TYPE_CHECKING:
    from gpu_vecenv.bench.settings import Setting

NAME, DISTRIBUTION = "PureJaxRL", None
SOURCE = "PUREJAXRL_SOURCE"
"""Environment variable with the folder of ppo.py and wrappers.py; ``--purejaxrl`` sets it for this process."""

UPDATES = {"cpu": 2, "cuda": 50}
"""Iterations in a call."""

WINDOW = 100
"""Episodes over which returns are averaged."""


def ways(case: Setting, device: str) -> list[dict[str, Any]]:
    """CartPole with two hidden layers of 64 units: iterations, and the way to a goal with PureJaxRL's hyperparameters."""
    from gpu_vecenv.bench.settings import PUREJAXRL

    goal, title = getattr(case, "goal", None), getattr(case, "title", PUREJAXRL)
    if case.env != CARTPOLE or case.network.hidden_sizes != (64, 64) or title != PUREJAXRL:
        return []
    ppo = case.ppo
    updates = UPDATES[device.partition(":")[0]]
    total = updates * case.worlds * ppo.num_steps if goal is None else getattr(case, "total_steps", 0)
    config = {
        "NUM_ENVS": case.worlds, "NUM_STEPS": ppo.num_steps, "UPDATE_EPOCHS": ppo.num_epochs,
        "NUM_MINIBATCHES": ppo.num_minibatches, "TOTAL_TIMESTEPS": total, "LR": ppo.learning_rate, "ENT_COEF": ppo.entropy_coef,
    }  # fmt: skip
    return [{"path": "jitted training", "device": device, "num_envs": case.worlds, "config": config, "goal": goal}]


def make(path: str, device: str, num_envs: int, config: dict[str, Any], goal: float | None) -> Subject:
    """A jitted training run. With a goal, each reading trains another seed; otherwise a call is a whole run."""
    import jax

    ppo = _import_source()
    settings = {**shipped(ppo), **config, "DEBUG": False}
    start = time.perf_counter()
    compiled = jax.jit(ppo.make_train(settings)).lower(jax.random.PRNGKey(0)).compile()
    facts = {"compile_s": time.perf_counter() - start, "updates": int(settings["NUM_UPDATES"])}
    if goal is not None:
        jax.block_until_ready(compiled(jax.random.PRNGKey(0)))
        return Subject(ToGoal(compiled, goal), 1, facts)
    call = Local(lambda: jax.block_until_ready(compiled(jax.random.PRNGKey(0))), "cpu")
    return Subject(call, int(settings["NUM_UPDATES"]) * config["NUM_STEPS"], facts)


class ToGoal:
    """Runs of one seed after the other. The time to the goal is that of a run, times the share of its updates up to the goal."""

    most_calls = 1

    def __init__(self, train: Any, goal: float) -> None:
        self._train, self._goal, self._seed = train, goal, 0

    def read(self, calls: int) -> Reading:
        """Return the seconds that the next seed takes to the goal."""
        import jax
        import numpy as np

        self._seed += 1
        key = jax.block_until_ready(jax.random.PRNGKey(self._seed))
        start = time.perf_counter()
        metrics = jax.block_until_ready(self._train(key))["metrics"]
        seconds = time.perf_counter() - start
        returns, ended = (np.asarray(metrics[name]) for name in ("returned_episode_returns", "returned_episode"))
        updates = updates_to(self._goal, returns, ended)
        seconds *= (updates or len(returns)) / len(returns)
        return Reading(seconds, seconds, reached=updates is not None)


def updates_to(goal: float, returns: Any, ended: Any) -> int | None:
    """Return the number of updates after which the mean return of the last ``WINDOW`` episodes is at least ``goal``.

    Args:
        goal: the mean return.
        returns: float (updates, steps, envs), return of the episode that ended there.
        ended: bool of the same shape.

    Returns:
        The number, from 1; None if no update reaches it.
    """
    last: list[float] = []
    for update, (values, flags) in enumerate(zip(returns, ended, strict=True), 1):
        last = [*last, *values[flags].tolist()][-WINDOW:]
        if len(last) == WINDOW and sum(last) / WINDOW >= goal:
            return update
    return None


def stand_in_for_wrappers() -> None:
    """Put empty modules in the place of those that the wrappers import and CartPole does not use."""
    for name in ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix"):
        stand_in: Any = sys.modules.setdefault(name, ModuleType(name))
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, stand_in)
        stand_in.EpisodeWrapper = stand_in.AutoResetWrapper = object


def _import_source() -> Any:
    """Import the script ppo.py of the source folder, without writing there."""
    stand_in_for_wrappers()
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.environ[SOURCE])
    return importlib.import_module("ppo")


def shipped(module: Any) -> dict[str, Any]:
    """Return the ``config`` of the script's own main block.

    Raises:
        ValueError: the script has none.
    """
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "config":
            return dict(ast.literal_eval(node.value))
    raise ValueError(f"{module.__file__}: expected an assignment to config, got none")
