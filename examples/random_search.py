"""Random search for good hyperparameters of PPO on CartPole: runs with different settings train side by side in one process.

``python examples/random_search.py`` draws 8 settings on a CPU and 500 on a GPU, prints the best, and trains the first of these
again with other seeds, because the best of many noisy returns is higher than what its settings reach on average.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
import tyro

from gpu_vecenv.train import PPOConfig, RunResult, TrainConfig, train_many
from gpu_vecenv.train.config.run import Kernels
from gpu_vecenv.train.run_folder.intervals import mean_interval


@dataclass
class Args:
    """Settings of the search."""

    num_runs: int = 500 if torch.cuda.is_available() else 8
    """number of settings that are drawn"""
    total_steps: int = 50_000
    """steps of a run, summed over its worlds"""
    num_envs: int = 64
    """worlds of a run"""
    at_once: int = 16
    """most runs at a time"""
    best: int = 5
    """number of settings that are printed"""
    seeds: int = 4
    """number of runs with the best settings and other seeds; 0 for none"""
    device: str = "cuda:0" if torch.cuda.is_available() else "cpu"
    """"cpu" or "cuda:0" """
    seed: int = 1
    """seed of the search; the runs of the search have the seed 0"""


def draw(rng: np.random.Generator) -> PPOConfig:
    """Draw the settings of a run."""
    return PPOConfig(
        learning_rate=float(10 ** rng.uniform(-4.0, -2.0)),
        entropy_coef=float(10 ** rng.uniform(-5.0, -1.5)),
        clip_coef=float(rng.uniform(0.1, 0.4)),
        num_steps=int(rng.choice([16, 32, 64])),
        num_minibatches=int(rng.choice([1, 2, 4, 8])),
    )


def final_return(result: RunResult) -> float:
    """Return the mean return of a run's last 100 episodes; minus infinity if the run failed or ended no episode."""
    value = result.metrics.get("recent_return/agent", math.nan)
    return -math.inf if result.error is not None or math.isnan(value) else value


def main(args: Args) -> dict[str, RunResult]:
    """Search, print the best settings, and return the results of the search by the names of its runs."""
    rng = np.random.default_rng(args.seed)
    settings = {f"run-{number}": draw(rng) for number in range(args.num_runs)}
    kernels: Kernels = "fused" if args.device.startswith("cuda") else "auto"
    common = TrainConfig("WarpCartPole-v1", args.num_envs, args.total_steps, device=args.device, kernels=kernels)
    configs = {name: dataclasses.replace(common, ppo=ppo) for name, ppo in settings.items()}
    started = time.perf_counter()
    results = train_many(configs, at_once=args.at_once)
    print(f"{len(results)} runs in {time.perf_counter() - started:.1f} s")
    order = sorted(results, key=lambda name: final_return(results[name]), reverse=True)
    print("return  learning rate  entropy weight  clip range  steps  minibatches")
    for name in order[: args.best]:
        value, ppo = final_return(results[name]), settings[name]
        print(
            f"{value:6.1f}  {ppo.learning_rate:13.2g}  {ppo.entropy_coef:14.2g}  {ppo.clip_coef:10.2f}  "
            f"{ppo.num_steps:5}  {ppo.num_minibatches:11}"
        )
    if args.seeds:
        best = configs[order[0]]
        again = train_many({f"seed-{seed}": dataclasses.replace(best, seed=seed) for seed in range(1, args.seeds + 1)})
        mean, half = mean_interval([final_return(result) for result in again.values()])
        print(f"the best settings with {args.seeds} other seeds: mean return {mean:.1f} +- {half:.1f} (95 % interval)")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
