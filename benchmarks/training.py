"""Training speed: world steps per second of whole PPO iterations, rollout and update.

Run from a checkout: ``python benchmarks/training.py --device cuda:0 --out benchmarks/results/training.json``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.timing import synchronise, write_results
from gpu_vecenv.train import PPOConfig, TrainConfig, Trainer

CASES: list[tuple[str, int, PPOConfig]] = [
    ("WarpCartPole-v1", 2_048, PPOConfig(num_steps=16, num_minibatches=16)),
    ("WarpCartPole-v1", 16_384, PPOConfig(num_steps=32, num_minibatches=4)),
    ("WarpTag-v0", 60, PPOConfig(num_steps=32, num_minibatches=4)),
    ("WarpTag-v0", 500, PPOConfig(num_steps=32, num_minibatches=4)),
    ("WarpTag-v0", 2_000, PPOConfig(num_steps=16, num_minibatches=4)),
]


def measure(name: str, worlds: int, ppo: PPOConfig, device: str, iterations: int) -> dict[str, Any]:
    """Median iteration of one setting, after two that warm up; collection and update apart."""
    config = TrainConfig(name, worlds, worlds * ppo.num_steps * (iterations + 2), device=device, ppo=ppo)
    trainer = Trainer(config, quiet=True)
    taken, collecting = [], []
    collect = trainer.collector.collect

    def timed_collect() -> None:
        synchronise(device)
        started = time.perf_counter()
        collect()
        synchronise(device)
        collecting.append(time.perf_counter() - started)

    vars(trainer.collector)["collect"] = timed_collect
    for _ in range(iterations + 2):
        started = time.perf_counter()
        trainer.train(iterations=1)
        synchronise(device)
        taken.append(time.perf_counter() - started)
    seconds, rollout = statistics.median(taken[2:]), statistics.median(collecting[2:])
    steps = worlds * ppo.num_steps
    row = {
        "env": name, "worlds": worlds, "agents": trainer.env.num_agents, "rollout_steps": ppo.num_steps,
        "epochs": ppo.num_epochs, "minibatches": ppo.num_minibatches, "iterations": iterations,
        "ms_per_iteration": seconds * 1e3, "ms_rollout": rollout * 1e3, "ms_min": min(taken[2:]) * 1e3,
        "ms_max": max(taken[2:]) * 1e3, "world_steps_per_s": steps / seconds,
        "agent_steps_per_s": steps * trainer.env.num_agents / seconds,
    }  # fmt: skip
    trainer.close()
    print(f"{name} {worlds} x {row['agents']}: {seconds * 1e3:.1f} ms an iteration ({rollout * 1e3:.1f} ms rollout), "
          f"{steps / seconds:.3g} world steps/s, {row['agent_steps_per_s']:.3g} agent steps/s", flush=True)
    return row


def main() -> None:
    """Measure every case and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/training.json"))
    parser.add_argument("--iterations", type=int, default=10)
    given = parser.parse_args()
    torch.manual_seed(0)
    rows = [measure(*case, given.device, given.iterations) for case in CASES]
    write_results(given.out, "training", given.device, rows)


if __name__ == "__main__":
    main()
