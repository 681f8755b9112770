"""Results of a task by its protocol: trains runs side by side, and evaluates them beside random play."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.config.tasks import EVALUATION_SEED, Task, task_of
from gpu_vecenv.train.errors import RunsError
from gpu_vecenv.train.run_folder.checkpoints import BEST_NAME, CHECKPOINT_FOLDER
from gpu_vecenv.train.run_folder.metrics import read_metrics
from gpu_vecenv.train.run_folder.reproduction import SUM
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import evaluate
from gpu_vecenv.train.runner.many import train_many
from gpu_vecenv.train.runner.measure import Evaluation
from gpu_vecenv.train.runner.waiting import AT_ONCE


def reproduce(
    task_id: str,
    algorithm: str | None,
    seeds: int,
    out: Path,
    device: str = "auto",
    total_steps: int | None = None,
    at_once: int = AT_ONCE,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train the runs of a task with the seeds 0, 1, ... in folders ``seed-0``, ``seed-1``, ... and evaluate them.

    Args:
        task_id: id of the task.
        algorithm: name of its algorithm; None: its first one.
        seeds: number of runs.
        out: folder of the runs.
        device: ``auto``, ``cpu`` or ``cuda:0``.
        total_steps: steps of a run, summed over worlds; None: those of the task.
        at_once: most runs at a time, see ``train_many()``.
        quiet: print no progress.

    Returns:
        What ``run_folder/reproduction.py`` writes: the task and how it was run; ``roles``, agents by role; ``random``, mean
        returns of random play; ``seconds`` of all trainings with their start; and ``runs``. A run has ``curve``, the evaluations
        in its training; ``final``, mean returns of its policies; and ``best``, returns of its best policies by episode. Returns
        are those of an agent by role, and under ``sum`` those of all agents of a world.

    Raises:
        RunsError: a run ended with an error, or was stopped.
        ConfigError, RunExistsError, OSError: see ``train_many()``.
    """
    task = task_of(task_id)
    config = dataclasses.replace(task.config(algorithm, total_steps), device=device)
    start = time.perf_counter()
    configs = {f"seed-{seed}": dataclasses.replace(config, seed=seed) for seed in range(seeds)}
    results = train_many(configs, out, at_once=at_once, quiet=quiet)
    for name, result in results.items():
        if result.error is not None or result.finished != "done":
            raise RunsError(f"{out / name}: expected the run to end, got {result.error or 'a signal'}") from result.error
    seconds = time.perf_counter() - start
    used = resolve(results["seed-0"].config)
    with contextlib.closing(make_env(used, 1)) as env:
        roles = dict(env.role_counts)
    runs = [_run(task, out / name, seed, roles, device) for seed, name in enumerate(configs)]
    random = evaluate(
        config, 10 * task.episodes, dict.fromkeys(roles, "random"), seed=EVALUATION_SEED, seeds=seeds, device=device
    )
    return {
        "suite": task.suite,
        "task": task_id,
        "algorithm": task.algorithm(algorithm),
        "device": used.device,
        "episodes": 10 * task.episodes,
        "roles": roles,
        "config": used.to_options(),
        "steps": runs[0]["curve"]["steps"][-1],
        "seconds": round(seconds, 1),
        "random": _with_sum(random.mean_return, roles),
        "runs": runs,
    }


def _run(task: Task, folder: Path, seed: int, roles: Mapping[str, int], device: str) -> dict[str, Any]:
    """Return the curve of a run, and the returns of its last and of its best policies."""
    play = functools.partial(
        evaluate, episodes=10 * task.episodes, seed=EVALUATION_SEED + seed, device=device, deterministic=task.deterministic
    )
    final, best = play(folder), play(folder / CHECKPOINT_FOLDER / BEST_NAME)
    means = _with_sum(final.mean_return, roles)
    return {"seed": seed, "curve": _curve(folder, roles), "final": means, "best": _episodes(best, roles)}


def _curve(folder: Path, roles: Mapping[str, int]) -> dict[str, Any]:
    """Return the evaluations in a training: ``steps``, ``seconds`` of its iterations until then, and ``returns`` by role."""
    curve: dict[str, Any] = {"steps": [], "seconds": [], "returns": {name: [] for name in (*roles, SUM)}}
    seconds, before = 0.0, 0.0
    for line in read_metrics(folder):
        steps = float(line["steps"] or 0)
        seconds += (steps - before) / (line["steps_per_second"] or float("inf"))
        before = steps
        means = {role: mean for role in roles if (mean := line.get(f"evaluation/{role}")) is not None}
        if len(means) < len(roles):  # an iteration without an evaluation
            continue
        curve["steps"].append(int(steps))
        curve["seconds"].append(round(seconds, 2))
        for name, mean in _with_sum(means, roles).items():
            curve["returns"][name].append(mean)
    return curve


def _episodes(result: Evaluation, roles: Mapping[str, int]) -> dict[str, list[float]]:
    """Return the returns of an agent by role and of all agents, a number for each episode."""
    by_episode = zip(*(result.episode_returns[role] for role in roles), strict=True)
    episodes = [_with_sum(dict(zip(roles, returns, strict=True)), roles) for returns in by_episode]
    return {name: [episode[name] for episode in episodes] for name in (*roles, SUM)}


def _with_sum(returns: Mapping[str, float], roles: Mapping[str, int]) -> dict[str, float]:
    """Return the returns of an agent by role, with that of all agents of a world under ``SUM``."""
    total = sum(count * returns[role] for role, count in roles.items())
    return {name: round(x, 5) for name, x in {**returns, SUM: total}.items()}
