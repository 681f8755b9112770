"""Learning curves of fused kernels beside those of torch's graph: ``python benchmarks/fused_learning.py --workers 8``.

The two cases have what only large problems have: a wide first layer (Tag, all agents observed, 735 features), and a part of the
observations that all agents share, with many heads (RICE-N). Each is trained by both kernels with eight seeds. The kernels draw
the same actions from the same weights, but the rounding of their gradients differs, so single runs part.

The number of a run and role is the mean of the return over the whole training, the area under its curve. Stated beforehand: the
mean over the seeds differs by less than a fifth of what torch's curves gain from their beginning to their end, by two one-sided
Welch tests at 95 %.

Writes ``benchmarks/results/fused_learning.json``.
"""

from __future__ import annotations

import dataclasses
import math
import os
import statistics
import sys
import time
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import shared  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.train import PPOConfig, TrainConfig, Trainer  # noqa: E402

CASES = {
    "Tag, all observed": TrainConfig(
        "WarpTag-v0", 64, 64 * 50 * 120,
        ppo=PPOConfig(num_steps=50, num_epochs=4, num_minibatches=8, learning_rate=2e-3, gamma=0.97, entropy_coef=0.003),
        env_kwargs={"use_full_observation": True, "max_speed": 0.5, "num_acceleration_levels": 2, "num_turn_levels": 2,
                    "episode_length": 100},
    ),
    "RICE-N, parts": TrainConfig(
        "WarpRice-v0", 64, 64 * 20 * 150,
        ppo=PPOConfig(num_steps=20, num_epochs=4, num_minibatches=4, learning_rate=3e-3, gamma=0.97),
    ),
}  # fmt: skip
KERNELS = ("fused", "torch")
MARGIN = 0.2
POINTS = 30
"""Points of a curve."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    seeds: int = 8
    """Runs of a case and kind of kernels, with the seeds 0, 1, ..."""
    workers: int = 4
    """Runs at a time."""
    device: str = "cuda:0"
    """A GPU."""
    out: Path = ROOT / "benchmarks" / "results" / "fused_learning.json"
    """File of the results."""


def train(case: str, kernels: str, seed: int, device: str) -> dict[str, Any]:
    """Train a run, and return its ``seconds`` and curve: by policy, the mean return of the last episodes after each piece."""
    config = dataclasses.replace(CASES[case], kernels=kernels, graph=True, seed=seed, device=device)
    trainer, start = Trainer(config, quiet=True), time.perf_counter()
    curve: dict[str, list[float]] = {name: [] for name in trainer.parts.algorithms}
    piece = trainer.num_iterations // POINTS
    while not trainer.finished:
        metrics = trainer.train(piece)
        for name, returns in curve.items():
            if not math.isnan(value := metrics[f"recent_return/{name}"]):
                returns.append(value)
    trainer.close()
    return {"kernels": kernels, "seed": seed, "seconds": round(time.perf_counter() - start, 1), "curve": curve}


def compared(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return, by policy, the areas of both kernels' curves, the margin and the test of ``shared.equivalence()``."""
    row = {}
    for name in runs[0]["curve"]:
        curves = {kernels: [run["curve"][name] for run in runs if run["kernels"] == kernels] for kernels in KERNELS}
        areas = {kernels: [statistics.mean(curve) for curve in of] for kernels, of in curves.items()}
        gain = statistics.mean(curve[-1] - curve[0] for curve in curves["torch"])
        margin = MARGIN * abs(gain)
        means = {kernels: statistics.mean(values) for kernels, values in areas.items()}
        row[name] = {"area": means, "gain": gain, "margin": margin, **shared.equivalence(areas["fused"], areas["torch"], margin)}
    return row


def main(options: Options) -> None:
    """Train all runs, and compare."""
    os.environ["GPU_VECENV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes of the runs
    rows: dict[str, Any] = {case: {"machine": machine(options.device), "runs": []} for case in CASES}
    with shared.process_pool(options.workers) as pool:
        jobs = {
            pool.submit(train, case, kernels, seed, options.device): case
            for seed in range(options.seeds) for case in CASES for kernels in KERNELS
        }  # fmt: skip
        for job in as_completed(jobs):
            rows[jobs[job]]["runs"].append(job.result())
    for case, row in rows.items():
        row["runs"].sort(key=lambda run: (run["kernels"], run["seed"]))
        row["compared"] = compared(row["runs"])
        print(case, row["compared"], flush=True)
    shared.write(options.out, {"benchmark": "fused_learning", "cases": rows}, "cases")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
