"""Processor time of settings of PPO on the CPU: ``python benchmarks/cpu_presets.py``.

Trains CartPole and Acrobot with each of ``SETTINGS``, seed after seed, by one thread, and notes the processor time until the mean
return of the last 100 episodes reaches ``GOALS``; other programs on the machine hardly matter. Each run goes on to its last
step, and the policy at its end plays 256 fresh episodes.

Writes ``benchmarks/results/cpu_presets.json``, in which settings that are not run again keep their results.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["GPU_VECENV_NUM_THREADS"] = "1"  # before kernels are loaded

import tyro  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_vecenv.bench.goals import evaluated  # noqa: E402
from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.train import TrainConfig, Trainer  # noqa: E402
from gpu_vecenv.train.config import PRESETS  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "cpu_presets.json"

GOALS = {"WarpCartPole-v1": 475.0, "WarpAcrobot-v1": -100.0}
"""Mean return of a policy that has learned."""

def setting(num_envs: int, total_steps: int, **ppo: Any) -> dict[str, Any]:
    """Return options of a run; those of PPO that are left out are the preset's of a GPU."""
    return {"num_envs": num_envs, "total_steps": total_steps, "ppo": ppo}


SETTINGS: dict[str, list[dict[str, Any]]] = {
    "WarpCartPole-v1": [
        setting(512, 1_000_000),
        setting(64, 200_000, num_steps=64),
        setting(64, 200_000, num_steps=32),
        setting(64, 300_000, num_steps=32, learning_rate=2e-3),
        setting(128, 300_000, num_steps=32),
        setting(32, 150_000, num_steps=32, learning_rate=2e-3),
        setting(32, 150_000, num_steps=64, learning_rate=2e-3),
        setting(16, 150_000, num_steps=64, learning_rate=2e-3),
    ],
    "WarpAcrobot-v1": [
        setting(64, 1_000_000),
        setting(64, 300_000, num_minibatches=8, learning_rate=2e-3),
        setting(128, 500_000, num_steps=32, num_minibatches=8, learning_rate=2e-3),
    ],
}
"""Settings by env; the first one is the preset of a GPU."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the script."""

    envs: tuple[str, ...] = tuple(SETTINGS)
    """Env ids."""
    seeds: int = 5
    """Runs of a setting, with the seeds 0, 1, ..."""
    out: Path = RESULTS
    """File of the results."""


def config_of(env_id: str, options: dict[str, Any], seed: int) -> TrainConfig:
    """Return the options of a run."""
    ppo = dataclasses.replace(PRESETS[env_id].ppo, **options["ppo"])
    return TrainConfig(env_id, seed=seed, device="cpu", **{**options, "ppo": ppo})


def run(config: TrainConfig) -> dict[str, Any]:
    """Train to the end, and return the processor seconds and steps to the goal, None without it, those of all, and the return."""
    goal_s, goal_steps, start = None, None, time.process_time()
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        (name,) = trainer.policies
        while not trainer.finished:
            trainer.launch()
            metrics = trainer.finish()
            if goal_s is None and metrics[f"recent_return/{name}"] >= GOALS[config.env_id]:
                goal_s, goal_steps = time.process_time() - start, int(metrics["steps"])
        seconds = time.process_time() - start
        value = evaluated(trainer)
    return {"seed": config.seed, "goal_s": goal_s, "goal_steps": goal_steps, "seconds": seconds, "return": value}


def main(options: Options) -> None:
    """Run the settings, write the results after each of them, and print a line for each."""
    results = json.loads(options.out.read_text()) if options.out.is_file() else {}
    results |= {"benchmark": "cpu_presets", "command": "python benchmarks/cpu_presets.py", "goals": GOALS}
    rows = results.setdefault("rows", [])
    for env_id in options.envs:
        for each in SETTINGS[env_id]:
            runs = [run(config_of(env_id, each, seed)) for seed in range(options.seeds)]
            rows[:] = [row for row in rows if row["env"] != env_id or row["options"] != each]
            rows.append({"env": env_id, "options": each, "machine": machine("cpu"), "runs": runs})
            options.out.write_text(json.dumps(results, indent=1) + "\n")
            goals = ", ".join("never" if one["goal_s"] is None else f"{one['goal_s']:.2f}" for one in runs)
            ends = ", ".join(f"{one['return']:.1f} after {one['seconds']:.1f} s" for one in runs)
            print(f"{env_id} {each}: goal {goals}; end {ends}", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options))
