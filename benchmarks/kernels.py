"""Learning with fused kernels against learning with torch: ``python benchmarks/kernels.py``, on a GPU.

Trains CartPole and Pendulum with their presets, and the small game of Tag, with several seeds by each of two kinds of kernels,
``torch`` and ``fused``, in CUDA graphs. Runs without a graph have the same bits (``tests/train/test_executor.py``).
All runs of a case train side by side.

The number of a run is the mean, over its iterations, of the mean return of the last 100 episodes. Stated beforehand: two
kinds are equivalent if the difference of their means is within 10 % of the range from random actions to the best return, by
two one-sided t-tests (Welch) at the level 5 % each.

Writes ``benchmarks/results/kernels.json`` and prints a line for each policy.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import tempfile
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
from gpu_vecenv.train import TrainConfig, train_many  # noqa: E402
from gpu_vecenv.train.config import SMALL_TAG  # noqa: E402
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE  # noqa: E402

KERNELS = ("torch", "fused")

CASES: dict[str, tuple[TrainConfig, dict[str, tuple[float, float]]]] = {
    "CartPole": (TrainConfig("WarpCartPole-v1"), {"agent": (22.0, 500.0)}),
    "Pendulum": (TrainConfig("WarpPendulum-v1"), {"agent": (-1223.0, -150.0)}),
    "small Tag": (SMALL_TAG, {"tagger": (1.0, 24.0), "runner": (-8.0, -1.0)}),
}
"""Options of a case; by policy, the return of random actions and the best return."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    seeds: int = 5
    """Runs of a case and a kind of kernels, with the seeds 0, 1, ..."""
    device: str = "cuda:0"
    """A GPU."""
    total_steps: int | None = None
    """Steps of a run; None: those of the preset."""
    out: Path = ROOT / "benchmarks" / "results" / "kernels.json"
    """File of the results."""


def runs_of(case: str, options: Options) -> list[dict[str, Any]]:
    """Train the runs of a case; return kernels, seed and number of each, by policy."""
    base, roles = CASES[case]
    changes = {} if options.total_steps is None else {"total_steps": options.total_steps}
    configs = {
        f"{kernels}-{seed}": dataclasses.replace(base, seed=seed, kernels=kernels, device=options.device, **changes)
        for kernels in KERNELS for seed in range(options.seeds)
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        results = train_many(configs, Path(folder) / "runs", quiet=True)
        runs = []
        for name, result in results.items():
            if result.error is not None:
                raise result.error
            lines = (Path(folder) / "runs" / name / METRICS_FILE).read_text().splitlines()
            rows = [json.loads(line) for line in lines]
            means = {role: [row.get(f"recent_return/{role}") for row in rows] for role in roles}
            returns = {role: float(np.mean([x for x in xs if x is not None and math.isfinite(x)])) for role, xs in means.items()}
            runs.append({"kernels": name.partition("-")[0], "seed": configs[name].seed, "mean_return": returns})
    return runs


def main() -> None:
    """Train all cases, compare the kernels and write the file."""
    options = tyro.cli(Options)
    results: dict[str, Any] = {"benchmark": "kernels", "cases": {}}
    for case, (_, roles) in CASES.items():
        row: dict[str, Any] = {"machine": machine(options.device), "policies": {}, "runs": runs_of(case, options)}
        for role, (low, high) in roles.items():
            torch_runs, fused_runs = (
                [run["mean_return"][role] for run in row["runs"] if run["kernels"] == kernels] for kernels in KERNELS
            )
            margin = 0.1 * (high - low)
            test = shared.equivalence(fused_runs, torch_runs, margin)
            row["policies"][role] = {"margin": margin, **test}
            if test:
                low_90, high_90 = test["welch_90"]
                means = f"torch {np.mean(torch_runs):9.2f}  fused {np.mean(fused_runs):9.2f}"
                interval = f"difference {test['difference']:8.2f}, 90 % from {low_90:.2f} to {high_90:.2f}"
                interval += f", margin {margin:.2f}, p {test['p_value']:.4f}"
                print(f"{case:>10} {role:>7}: {means}  {interval}", flush=True)
        results["cases"][case] = row
    shared.write(options.out, results, "cases")


if __name__ == "__main__":
    main()
