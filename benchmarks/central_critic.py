"""MAPPO beside IPPO on a cooperative game: ``python benchmarks/central_critic.py --workers 5``.

The game is Meet-v0 of the tests: a team is paid for each step at whose end all of its agents are in one cell of a ring, and each
agent sees the place of the next one alone. The three cases differ in the critic: it reads what its agent observes (IPPO), all
observations beside those of its agent, or all observations alone with one value for the team (both MAPPO, Yu et al. 2022, arXiv
2103.01955). All else is equal, the weights of the actor at the start included.

Numbers of a run: the mean return over the whole training, which is the area under its learning curve, that of an evaluation of
``--episodes`` episodes afterwards, and the share of the variance of returns that the critic explains, over the second half of
the training. Intervals are those of the mean by Student's t over seeds, 95 %, and of the differences from IPPO, whose seeds are
paired.

Writes ``benchmarks/results/central_critic.json`` and ``docs/figures/central_critic.png``. ``--draw-only`` draws the picture and
prints the table from the file.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "tests" / "train"))

import meet  # noqa: E402, F401  (registers Meet-v0)
import shared  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.render.looks import OTHERS  # noqa: E402
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer, evaluate  # noqa: E402
from gpu_vecenv.train.run_folder.intervals import mean_curve, mean_interval  # noqa: E402

CRITICS: dict[str, dict[str, Any]] = {
    "IPPO": {},
    "MAPPO, value of an agent": {"critic": "observations"},
    "MAPPO, value of a team": {"critic": "observations", "critic_value": "team"},
}
"""Options of the critic by case. The first is what the others are compared with."""

GAME = {"num_walkers": 5, "num_cells": 7, "max_episode_steps": 25}
NUMBERS = ("area", "evaluation", "explained_variance")
LOOKS = (OTHERS[2], OTHERS[0], OTHERS[1])


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    seeds: int = 5
    """Runs of a case, with the seeds 0, 1, ..."""
    workers: int = len(os.sched_getaffinity(0))
    """Runs at a time."""
    device: str = "cpu"
    """``cpu`` or ``cuda:0``."""
    num_envs: int = 64
    """Worlds of a run."""
    iterations: int = 64
    """Rollouts and updates of a run."""
    episodes: int = 256
    """Episodes of an evaluation."""
    out: Path = ROOT / "benchmarks" / "results" / "central_critic.json"
    """File of the results."""
    figure: Path = ROOT / "docs" / "figures" / "central_critic.png"
    """File of the picture."""
    draw_only: bool = False
    """Run nothing."""


def config_of(case: str, seed: int, options: Options) -> TrainConfig:
    """Return the options of a run."""
    ppo = PPOConfig(num_steps=32, num_minibatches=4, num_epochs=4, learning_rate=2e-3)
    return TrainConfig(
        "Meet-v0", num_envs=options.num_envs, total_steps=options.num_envs * ppo.num_steps * options.iterations, seed=seed,
        device=options.device, env_kwargs=dict(GAME), ppo=ppo, network=NetworkConfig((32, 32), agent_ids=True, **CRITICS[case]),
    )  # fmt: skip


def train(case: str, seed: int, options: Options) -> dict[str, Any]:
    """Train and evaluate one run.

    Returns:
        ``NUMBERS``, ``seconds`` of training, and the curve: ``steps`` and ``return``, the mean over the episodes that ended in
        each iteration, without those in which none did.
    """
    start, curve, explained = time.perf_counter(), [], []
    trainer = Trainer(config_of(case, seed, options), quiet=True)
    while not trainer.finished:
        metrics = trainer.train(1)
        explained.append(metrics["explained_variance/walker"])
        if not math.isnan(metrics["return/walker"]):
            curve.append((int(metrics["steps"]), metrics["return/walker"]))
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        path = trainer.save(Path(folder) / "checkpoint.pt")
        trainer.close()
        means = evaluate(path, options.episodes, device=options.device).mean_return
    steps, returns = zip(*curve, strict=True)
    numbers = {"area": float(np.mean(returns)), "evaluation": means["walker"]}
    numbers["explained_variance"] = float(np.mean(explained[len(explained) // 2 :]))
    return {"seed": seed, **numbers, "seconds": seconds, "curve": {"steps": steps, "return": returns}}


def measure(options: Options) -> None:
    """Run all cases and seeds; write the results after each run, so that an interruption leaves what is done."""
    facts, settings = machine(options.device), vars(options) | {"out": options.out.name, "figure": options.figure.name}
    rows: dict[str, Any] = {}
    for case in CRITICS:
        hyperparameters = config_of(case, 0, options).to_options()
        hyperparameters = {name: hyperparameters[name] for name in ("num_envs", "total_steps", "ppo", "network", "env_kwargs")}
        rows[case] = {"machine": facts, "options": settings, "hyperparameters": hyperparameters, "runs": []}
    os.environ["GPU_VECENV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes of the runs
    with shared.process_pool(options.workers) as pool:
        jobs = {pool.submit(train, case, seed, options): case for seed in range(options.seeds) for case in CRITICS}
        for job in as_completed(jobs):
            case, run = jobs[job], job.result()
            rows[case]["runs"] = sorted([*rows[case]["runs"], run], key=lambda each: each["seed"])
            rows[case]["intervals"] = intervals(rows[case]["runs"], rows["IPPO"]["runs"])
            shared.write(options.out, {"benchmark": "central_critic", "cases": rows}, "cases")
            print(f"{case} seed {run['seed']}: {run['evaluation']:.2f} after {run['seconds']:.0f} s", flush=True)
    for row in rows.values():  # the runs that they are compared with are complete now
        row["intervals"] = intervals(row["runs"], rows["IPPO"]["runs"])
    shared.write(options.out, {"benchmark": "central_critic", "cases": rows}, "cases")


def intervals(runs: list[dict[str, Any]], base: list[dict[str, Any]]) -> dict[str, Any]:
    """Return each number's mean, and its difference from runs with the same seeds, with half the width of their intervals."""
    of_base, found = {run["seed"]: run for run in base}, {}
    for name in NUMBERS:
        values = [run[name] for run in runs]
        differences = [run[name] - of_base[run["seed"]][name] for run in runs if run["seed"] in of_base]
        found[name] = {"mean": finite(mean_interval(values))}
        if runs is not base and differences:
            found[name]["difference"] = finite(mean_interval(differences))
    return found


def finite(numbers: tuple[float, ...]) -> list[float | None]:
    """Return numbers as JSON stores them, None for an interval of a single run."""
    return [None if math.isnan(x) else x for x in numbers]


def table(results: dict[str, Any]) -> None:
    """Print the numbers of each case, and their differences from the first."""
    print("\nmean over seeds and its 95 % interval; the difference is that from IPPO")
    print(f"{'case':<26} {'area under the curve':>20} {'difference':>16} {'evaluation':>16} {'explained variance':>19}")
    for case, row in results["cases"].items():
        found = row["intervals"]
        cells = [shown(found["area"]["mean"]), shown(found["area"].get("difference")), shown(found["evaluation"]["mean"])]
        print(f"{case:<26} {cells[0]:>20} {cells[1]:>16} {cells[2]:>16} {shown(found['explained_variance']['mean']):>19}")


def shown(interval: list[float | None] | None) -> str:
    """Return a mean and its interval."""
    if interval is None:
        return ""
    mean, half = interval
    return f"{mean:.2f}" if half is None else f"{mean:.2f} ± {half:.2f}"


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw the mean curve of each case with its interval."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.2, 3.4), layout="constrained")
    for (case, row), look in zip(results["cases"].items(), LOOKS, strict=True):
        curve = mean_curve([(run["curve"]["steps"], run["curve"]["return"]) for run in row["runs"]])
        axes.plot(curve.x, curve.mean, lw=1.4, label=f"{case}: mean of {len(row['runs'])} seeds, 95 % interval", **look)
        axes.fill_between(curve.x, curve.mean - curve.half, curve.mean + curve.half, color=look["color"], alpha=0.2, lw=0)
    shared.label(axes, "Meet-v0, 5 agents", "return of the episodes of an iteration")
    axes.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2))  # below, off the curves
    shared.save(figure, path)


if __name__ == "__main__":
    shared.run(tyro.cli(Options, description=__doc__), measure, table, draw)
