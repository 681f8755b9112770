"""Learning of every preset: ``python benchmarks/learning.py --workers 16``.

Trains each env of ``PRESETS``, and the small games ``SMALL_TAG`` and ``SMALL_GRID_TAG``, with several seeds.
Each run has a process and one thread of its own. Afterwards every match of trained and random roles is played: each role acts
by its trained policy or at random, so a table of two roles has four matches. Each match has one episode of 100 worlds, with
another seed than the training. Actions are drawn from the policies; a second evaluation takes the likeliest actions instead.

Writes ``benchmarks/results/learning.json``, in which cases that are not run again keep their results, and
``docs/figures/learning.png``. ``--draw-only`` draws the picture and prints the table from the file.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import shared  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.render.looks import NEUTRAL, look_of_role  # noqa: E402
from gpu_vecenv.train import TrainConfig, Trainer, evaluate  # noqa: E402
from gpu_vecenv.train.config import (  # noqa: E402
    PRESETS,
    SMALL_CONTINUOUS_TAG,
    SMALL_CONTINUOUS_TAG_DDPG,
    SMALL_GRID_TAG,
    SMALL_TAG,
    SMALL_TAG_PQN,
    resolve,
)
from gpu_vecenv.train.run_folder.intervals import mean_interval, student_quantile  # noqa: E402

TARGETS = {
    "WarpCartPole-v1": 475.0,
    "WarpAcrobot-v1": -100.0,
    "WarpMountainCarContinuous-v0": 90.0,
    "WarpPendulum-v1": -200.0,
    **{f"WarpPendulum-v1 {name}": -160.0 for name in ("sac", "td3", "ddpg")},
    **{f"WarpMountainCarContinuous-v0 {name}": 90.0 for name in ("sac", "td3")},
    "WarpCartPole-v1 pqn": 475.0,
    "WarpAcrobot-v1 pqn": -90.0,
}
"""Least mean return of a run that learned, with drawn actions; in ``OF_ALGORITHMS`` with the likeliest ones. MountainCar has
none; the roles of Tag are compared with random ones."""

CASES = {env_id: TrainConfig(env_id) for env_id in PRESETS} | {"SMALL_TAG": SMALL_TAG, "SMALL_GRID_TAG": SMALL_GRID_TAG}
"""Runs by name: an env with its preset, or a small game."""

OF_ALGORITHMS = {
    f"{env_id} {name}": TrainConfig(env_id, algorithm=name) for env_id, preset in PRESETS.items() for name in preset.algorithms
} | {
    "SMALL_CONTINUOUS_TAG": SMALL_CONTINUOUS_TAG,
    "SMALL_CONTINUOUS_TAG_DDPG": SMALL_CONTINUOUS_TAG_DDPG,
    "SMALL_TAG_PQN": SMALL_TAG_PQN,
}
"""Runs of other algorithms than PPO by name: an env with the preset of an algorithm, or a small game."""

POINTS = 100
"""Points of a curve."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    cases: tuple[str, ...] = tuple(CASES)
    """Names of ``CASES``, or of ``OF_ALGORITHMS``, such as ``"WarpPendulum-v1 sac"``."""
    seeds: int = 5
    """Runs of a case, with the seeds 0, 1, ..."""
    workers: int = len(os.sched_getaffinity(0))
    """Runs at a time."""
    device: str = "cpu"
    """``cpu`` or ``cuda:0``."""
    limit_s: float = 600.0
    """Wall time after which a run stops training, in seconds; it is evaluated all the same."""
    episodes: int = 100
    """Episodes of an evaluation."""
    total_steps: int | None = None
    """Steps of a run; None: those of the preset."""
    only_missing: bool = False
    """Run only the seeds that the results lack, so that an interrupted measurement ends, maybe on another machine."""
    out: Path = ROOT / "benchmarks" / "results" / "learning.json"
    """File of the results."""
    figure: Path = ROOT / "docs" / "figures" / "learning.png"
    """File of the picture."""
    draw_only: bool = False
    """Run nothing."""


def config_of(config: TrainConfig, seed: int, options: Options) -> TrainConfig:
    """Return the options of a run of a case."""
    changes: dict[str, Any] = {} if options.total_steps is None else {"total_steps": options.total_steps}
    return dataclasses.replace(config, seed=seed, device=options.device, **changes)


def train(config: TrainConfig, seed: int, options: Options) -> dict[str, Any]:
    """Train and evaluate one run of a case.

    Returns:
        ``curve``: ``steps`` and, by policy, ``recent_return``, None before the first episode ends. ``matches`` and
        ``likeliest``: see ``played()``. ``limit_hit``: training stopped at ``limit_s``.
    """
    trainer, start = Trainer(config_of(config, seed, options), quiet=True), time.perf_counter()
    curve: dict[str, Any] = {"steps": [], "recent_return": {name: [] for name in trainer.parts.algorithms}}
    between, seconds = max(1, trainer.num_iterations // POINTS), 0.0
    while not trainer.finished and seconds < options.limit_s:
        metrics = trainer.train(between)
        curve["steps"].append(int(metrics["steps"]))
        for name, values in curve["recent_return"].items():
            value = metrics[f"recent_return/{name}"]
            values.append(None if math.isnan(value) else value)
        seconds = time.perf_counter() - start
    run: dict[str, Any] = {"seed": seed, "seconds": seconds, "limit_hit": not trainer.finished, "curve": curve}
    with tempfile.TemporaryDirectory() as folder:
        path = trainer.save(Path(folder) / "checkpoint.pt")
        roles = list(trainer.env.role_rows)
        trainer.close()
        run["matches"] = [
            played(path, [role for role, random in zip(roles, choice, strict=True) if random], options, deterministic=False)
            for choice in itertools.product((False, True), repeat=len(roles))
        ]
        run["likeliest"] = played(path, [], options, deterministic=True)
    return run


def played(path: Path, random: list[str], options: Options, deterministic: bool) -> dict[str, Any]:
    """Return the means of an evaluation, and the roles that acted at random."""
    policy_map = dict.fromkeys(random, "random")
    means = evaluate(path, options.episodes, policy_map, deterministic, device=options.device)
    return {"random": random, **dataclasses.asdict(means)}


def match(run: dict[str, Any], *random: str) -> dict[str, float]:
    """Return the mean returns by role of the match in which these roles acted at random."""
    return next(each["mean_return"] for each in run["matches"] if set(each["random"]) == set(random))


def roles_of(run: dict[str, Any]) -> list[str]:
    """Return the roles of a run's env."""
    return list(run["likeliest"]["mean_return"])


def finished(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of an env without those that failed."""
    return [run for run in row["runs"] if "error" not in run]


def measure(options: Options, cases: Mapping[str, TrainConfig] = CASES | OF_ALGORITHMS, benchmark: str = "learning") -> None:
    """Run all cases and seeds; write the results after each run, so that an interruption leaves what is done.

    Args:
        options: options of the script.
        cases: runs by name.
        benchmark: name of the benchmark.
    """
    results = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": benchmark, "envs": {}}
    facts, settings = machine(options.device), vars(options) | {"out": str(options.out.name), "figure": options.figure.name}
    for case in options.cases:
        config = resolve(config_of(cases[case], 0, options))
        names = ("num_envs", "total_steps", config.algorithm, "network", "env_kwargs")
        hyperparameters = json.loads(json.dumps({name: config.to_options()[name] for name in names}))
        row = {"machine": facts, "options": settings, "hyperparameters": hyperparameters, "runs": []}
        there = results["envs"].get(case) if options.only_missing else None
        if there is not None and there["hyperparameters"] != hyperparameters:
            sys.exit(f"--only-missing: expected {case} to have the hyperparameters of {options.out.name}, got others")
        results["envs"][case] = row if there is None else {**there, "runs": finished(there)}
    os.environ["GPU_VECENV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes of the runs
    with shared.process_pool(options.workers) as pool:
        # Seeds in the outer loop: an interruption leaves some seeds of every case.
        there = {(case, run["seed"]) for case in options.cases for run in results["envs"][case]["runs"]}
        runs_wanted = [(case, seed) for seed in range(options.seeds) for case in options.cases if (case, seed) not in there]
        jobs = {pool.submit(train, cases[case], seed, options): (case, seed) for case, seed in runs_wanted}
        for job in as_completed(jobs):
            case, seed = jobs[job]
            try:
                run = job.result()
            except Exception as error:
                run = {"seed": seed, "error": f"{type(error).__name__}: {error}"}
            row = results["envs"][case]
            runs = row["runs"]
            runs.append(run if row["machine"] == facts else {**run, "machine": facts})
            runs.sort(key=lambda each: each["seed"])
            shared.write(options.out, results, "envs")
            told = run.get("error") or f"{match(run)} after {run['seconds']:.0f} s" + " (limit)" * run["limit_hit"]
            print(f"{case} seed {seed}: {told}", flush=True)


def shown(values: list[float]) -> str:
    """Return a mean and its 95 % interval."""
    mean, half = mean_interval(values)
    return f"{mean:9.2f} ± {half:<7.2f}"


def table(results: dict[str, Any]) -> None:
    """Print the final returns of each case, and the matches of those with several roles."""
    print("\nmean return of the last evaluation: mean over seeds and its 95 % interval (Student's t)")
    print(f"{'case':<30} {'drawn actions':>19} {'likeliest actions':>19} {'random actions':>19}   target  reached by")
    several = {}
    for case, row in results["envs"].items():
        runs = finished(row)
        if len(runs) < len(row["runs"]):
            print(f"{case:<30} {len(row['runs']) - len(runs)} of {len(row['runs'])} runs failed")
        if not runs:
            continue
        roles = roles_of(runs[0])
        if len(roles) > 1:
            several[case] = runs
            continue
        (role,), target = roles, TARGETS.get(case)
        drawn = [match(run)[role] for run in runs]
        likeliest = [run["likeliest"]["mean_return"][role] for run in runs]
        random = [match(run, role)[role] for run in runs]
        judged = likeliest if case in OF_ALGORITHMS else drawn
        reached = "" if target is None else f"{target:8.0f}  {sum(x >= target for x in judged)} of {len(runs)} seeds"
        print(f"{case:<30} {shown(drawn):>19} {shown(likeliest):>19} {shown(random):>19} {reached}")
    if several:
        print("\nreturn of a trained role and of a random one, against the same opponents")
        print(f"{'case':<16} {'role':<8} {'opponents':<10} {'trained':>19} {'random':>19} {'difference':>19}  above random")
    for case, runs in several.items():
        roles = roles_of(runs[0])
        for role, opponents in itertools.product(roles, ("random", "trained")):
            random_roles = [other for other in roles if other != role and opponents == "random"]
            trained = [match(run, *random_roles)[role] for run in runs]
            random = [match(run, role, *random_roles)[role] for run in runs]
            difference = [a - b for a, b in zip(trained, random, strict=True)]
            above = f"{sum(x > 0 for x in difference)} of {len(runs)} seeds"
            print(f"{case:<16} {role:<8} {opponents:<10} {shown(trained)} {shown(random)} {shown(difference)}  {above}")


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw a panel for each role of each case: its mean curve with the 95 % interval, random actions and the target."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs_of = {case: runs for case, row in results["envs"].items() if (runs := finished(row))}
    panels = [(case, number) for case, runs in runs_of.items() for number in range(len(roles_of(runs[0])))]
    across = min(4, len(panels))
    down = -(-len(panels) // across)
    figure, grid = pyplot.subplots(down, across, figsize=(3.8 * across, 3.0 * down + 0.5), layout="constrained", squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, (case, number) in zip(grid.flat, panels, strict=False):
        of_number = dict.fromkeys(f"{roles[number]}s" for runs in runs_of.values() if number < len(roles := roles_of(runs[0])))
        _panel(axes, case, number, runs_of[case], ", ".join(of_number))
    shared.legend(figure, grid.flat[: len(panels)])
    shared.save(figure, path)


def _panel(axes: Any, case: str, number: int, runs: list[dict[str, Any]], names: str) -> None:
    """Draw one role of a case; ``names`` are those of all roles with its colour, for the legend."""
    roles = roles_of(runs[0])
    role, look = roles[number], look_of_role(number)
    points = min(len(run["curve"]["steps"]) for run in runs)  # a run at the limit is shorter
    steps = np.array(runs[0]["curve"]["steps"][:points])
    curves = np.array([run["curve"]["recent_return"][role][:points] for run in runs], dtype=float)
    mean = curves.mean(0)  # NaN until an episode has ended in every run
    axes.plot(steps, mean, lw=1.4, label=f"{names} in training: mean over seeds, 95 % interval", **look)
    if len(runs) > 1:
        half = student_quantile(0.975, len(runs) - 1) * curves.std(0, ddof=1) / math.sqrt(len(runs))
        axes.fill_between(steps, mean - half, mean + half, color=look["color"], alpha=0.2, lw=0)
    level = float(np.mean([match(run, *roles)[role] for run in runs]))
    axes.axhline(level, color=NEUTRAL["color"], lw=0.9, ls="--", label="all act at random")
    if case in TARGETS:
        axes.axhline(TARGETS[case], color=NEUTRAL["color"], lw=0.9, ls=":", label="target")
    of_role = f"{role}s, " if len(roles) > 1 else ""
    shared.label(axes, f"{case}\n{of_role}{len(runs)} seeds", "return, last 100 episodes")


if __name__ == "__main__":
    shared.run(tyro.cli(Options, description=__doc__), measure, table, draw)
