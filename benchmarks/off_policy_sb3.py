"""SAC, TD3 and DDPG of the trainer against Stable-Baselines3's: ``python benchmarks/off_policy_sb3.py --workers 16``.

Each pair trains on Pendulum with 8 worlds of this package, on the CPU with one thread, and with the options ``SHARED``. What had
to be made equal:

- Networks: two ReLU layers of 64; both libraries draw first weights uniformly within 1 / sqrt(inputs).
- An iteration is a step of 8 worlds and 8 gradient steps. Actions are random until 1,000 transitions were seen.
- TD3 and DDPG have the normal noise 0.1 and 0.2; SAC starts at the temperature 1, with minus 1 as target of the entropy.
- SB3's loss of the temperature is that of its logarithm, ours that of the paper.
- Both add the discounted value of the last observation when the time limit ends an episode.

Curves, areas and the two one-sided tests are those of ``against_sb3.py``. Stated beforehand: the margin is 10 % of the range from
random actions, -1,223, to -150. After training, 1,000 episodes are played with the likeliest actions; -160 is the target.

Writes ``benchmarks/results/off_policy_sb3.json``, in which cases that are not run again keep their results, and
``docs/figures/off_policy_sb3.png``. ``--draw-only`` draws the picture and prints the table from the file.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import against_sb3  # noqa: E402
import shared  # noqa: E402
from against_sb3 import LIBRARIES, OURS, WORLDS, Episodes, Record, compare, curve  # noqa: E402

from gpu_vecenv.bench.machine import installed, machine  # noqa: E402
from gpu_vecenv.train import DDPGConfig, NetworkConfig, SACConfig, TD3Config, TrainConfig, Trainer, evaluate  # noqa: E402

RANDOM, BEST, TARGET = -1223.0, -150.0, -160.0
MARGIN = against_sb3.MARGIN_SHARE * (BEST - RANDOM)
SHARED = {
    "replay_size": 100_000, "learning_starts": 1_000, "batch_size": 128, "gradient_steps": WORLDS, "gamma": 0.98, "tau": 0.01,
    "learning_rate": 1e-3, "hidden_sizes": [64, 64],
}  # fmt: skip
"""Options of all cases."""
NOISE = {"sac": 0.0, "td3": 0.1, "ddpg": 0.2}
"""Deviation of the noise of actions, by case."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    cases: tuple[str, ...] = tuple(NOISE)
    """Names of algorithms."""
    seeds: int = 5
    """Runs of a case and library, with the seeds 0, 1, ..."""
    workers: int = len(os.sched_getaffinity(0))
    """Runs at a time."""
    total_steps: int = 15_000
    """Steps of a run."""
    episodes: int = 1_000
    """Episodes of the evaluation of a run."""
    out: Path = ROOT / "benchmarks" / "results" / "off_policy_sb3.json"
    """File of the results."""
    figure: Path = ROOT / "docs" / "figures" / "off_policy_sb3.png"
    """File of the picture."""
    draw_only: bool = False
    """Run nothing."""


def train_ours(name: str, seed: int, options: Options) -> tuple[Episodes, float]:
    """Train with this package; return the finished episodes, and the mean return of the likeliest actions."""
    rates = {"actor_learning_rate": SHARED["learning_rate"], "critic_learning_rate": SHARED["learning_rate"]}
    same = {key: SHARED[key] for key in ("replay_size", "learning_starts", "batch_size", "gradient_steps", "gamma", "tau")}
    of_algorithm: Any = {
        "sac": lambda: SACConfig(**same, **rates, temperature_learning_rate=SHARED["learning_rate"]),
        "td3": lambda: TD3Config(**same, **rates, exploration_noise=NOISE["td3"]),
        "ddpg": lambda: DDPGConfig(**same, **rates, exploration_noise=NOISE["ddpg"]),
    }
    config = TrainConfig(
        "WarpPendulum-v1", WORLDS, options.total_steps, seed, "cpu", network=NetworkConfig(tuple(SHARED["hidden_sizes"]), "relu"),
        algorithm=name, algorithms={name: of_algorithm[name]()},
    )  # fmt: skip
    record = Record()
    trainer = Trainer(config, quiet=True, callbacks=[record])
    trainer.train()
    with tempfile.TemporaryDirectory() as folder:
        path = trainer.save(Path(folder) / "run.pt")
        trainer.close()
        played = evaluate(path, options.episodes, deterministic=True, device="cpu")
    return record.episodes, played.mean_return["agent"]


def train_sb3(name: str, seed: int, options: Options) -> tuple[Episodes, float]:
    """Train with Stable-Baselines3; return what ``train_ours()`` does."""
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.noise import NormalActionNoise

    from gpu_vecenv.adapters.sb3 import Sb3VecEnv

    class Recorded(BaseCallback):
        """Stores the episodes that the env reports."""

        def __init__(self) -> None:
            super().__init__()
            self.episodes: Episodes = []

        def _on_step(self) -> bool:
            ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
            self.episodes += [(self.num_timesteps, float(x)) for x in ended]
            return True

    env = Sb3VecEnv("WarpPendulum-v1", num_envs=WORLDS, device="cpu")
    noise = NormalActionNoise(np.zeros(1), np.full(1, NOISE[name])) if NOISE[name] else None
    make = {"sac": stable_baselines3.SAC, "td3": stable_baselines3.TD3, "ddpg": stable_baselines3.DDPG}[name]
    model: Any = make(
        "MlpPolicy", env, learning_rate=SHARED["learning_rate"], buffer_size=SHARED["replay_size"],
        learning_starts=SHARED["learning_starts"], batch_size=SHARED["batch_size"], tau=SHARED["tau"], gamma=SHARED["gamma"],
        train_freq=1, gradient_steps=SHARED["gradient_steps"], action_noise=noise,
        policy_kwargs={"net_arch": SHARED["hidden_sizes"]}, seed=seed, device="cpu",
    )  # fmt: skip
    record = Recorded()
    model.learn(options.total_steps, callback=record)
    many = Sb3VecEnv("WarpPendulum-v1", num_envs=50, device="cpu")
    mean, _ = evaluate_policy(model, many, options.episodes, warn=False)
    many.close()
    env.close()
    return record.episodes, float(mean)


def train(name: str, library: str, seed: int, options: Options) -> dict[str, Any]:
    """Train one run; see ``against_sb3.train()``. ``likeliest`` is the mean return of the likeliest actions."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    episodes, likeliest = (train_ours if library == OURS else train_sb3)(name, seed, options)
    returns = curve(episodes, options.total_steps)
    return {
        "library": library, "seed": seed, "seconds": time.perf_counter() - start, "episodes": len(episodes),
        "area": float(np.mean(returns)), "likeliest": likeliest, "curve": returns,
    }  # fmt: skip


def measure(options: Options) -> None:
    """Run all cases, libraries and seeds; write the results after each run, so that an interruption leaves what is done."""
    results = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "off_policy_sb3", "cases": {}}
    facts = machine("cpu") | {"stable_baselines3": installed("stable-baselines3")}
    for name in options.cases:
        settings = {
            **SHARED, "noise": NOISE[name], "total_steps": options.total_steps, "num_envs": WORLDS, "random": RANDOM, "best": BEST
        }  # fmt: skip
        results["cases"][name] = {"machine": facts, "settings": settings, "margin": MARGIN, "runs": []}
    os.environ["GPU_VECENV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes of the runs
    with shared.process_pool(options.workers) as pool:
        cases = [(name, library, seed) for seed in range(options.seeds) for name in options.cases for library in LIBRARIES]
        jobs = {pool.submit(train, *case, options): case[0] for case in cases}
        for job in as_completed(jobs):
            name, run = jobs[job], job.result()
            runs = results["cases"][name]["runs"]
            runs.append(run)
            runs.sort(key=lambda each: (each["library"], each["seed"]))
            results["cases"][name]["comparison"] = compare(runs, MARGIN) if len({x["library"] for x in runs}) > 1 else {}
            shared.write(options.out, results, "cases")
            print(f"{name} {run['library']} seed {run['seed']}: area {run['area']:.1f}, then {run['likeliest']:.1f}", flush=True)


def table(results: dict[str, Any]) -> None:
    """Print the comparison of each case, and the returns after training."""
    against_sb3.table(results)
    for name, row in results["cases"].items():
        for library in LIBRARIES:
            likeliest = [run["likeliest"] for run in row["runs"] if run["library"] == library]
            reached = sum(x >= TARGET for x in likeliest)
            seeds = f"{reached} of {len(likeliest)} at least {TARGET:.0f}"
            print(f"{name}, {library}: likeliest actions {np.mean(likeliest):.1f}, {seeds}")


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw a panel for each algorithm."""
    against_sb3.draw(results, path, {name: f"{name.upper()}, WarpPendulum-v1" for name in results["cases"]})


if __name__ == "__main__":
    shared.run(tyro.cli(Options, description=__doc__), measure, table, draw)
