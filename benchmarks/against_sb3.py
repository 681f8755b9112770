"""The trainer's PPO against Stable-Baselines3's: ``python benchmarks/against_sb3.py --workers 16``.

Both train on CartPole (100,000 steps) and Pendulum (200,000 steps) with 8 worlds of this package, on the CPU with one thread, and
with the same hyperparameters: see ``CASES`` and ``SHARED``. What had to be made equal:

- Networks: actor and critic of two tanh layers of 64 each, orthogonal weights, log deviation 0 at the start.
- Observations and rewards are not normalised, values are not clipped, the learning rate is constant. Advantages are normalised in
  each minibatch; SB3 divides by the deviation of a sample (n - 1), the trainer by that of a population (n).
- Adam has epsilon 1e-5; gradients are clipped to norm 0.5.
- SB3's value loss is the squared error, the trainer's half of it, so the trainer's weight of it is twice SB3's.
- Both add the discounted value of the last observation when the time limit ends an episode.
- Actions: a policy of the trainer acts in units in which the bounds are -1 and 1. SB3's does not, so it gets an env whose actions
  are scaled to [-1, 1]. Both clip what they send to the env, not what they learn from.

A curve is the mean return of the episodes that end in each of 50 equal parts of the run; a part without one repeats the part
before. The area under it, divided by the steps, is a run's mean return over training.

Stated beforehand: the two are equivalent if the difference of their mean areas is within 10 % of the range from random actions to
the best return, which is 22 to 500 for CartPole (margin 47.8) and -1,223 to -150 for Pendulum (margin 107.3). The test is two
one-sided t-tests (Welch) at the level 5 % each, with 10 seeds of each. A bootstrap over seeds gives the 95 % interval.

Writes ``benchmarks/results/against_sb3.json``, in which cases that are not run again keep their results, and
``docs/figures/against_sb3.png``. ``--draw-only`` draws the picture and prints the table from the file.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
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

import shared  # noqa: E402

from gpu_vecenv.bench.machine import installed, machine  # noqa: E402
from gpu_vecenv.render.looks import NEUTRAL, OTHERS  # noqa: E402
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer  # noqa: E402
from gpu_vecenv.train.run_folder.intervals import student_quantile  # noqa: E402
from gpu_vecenv.train.runner.callbacks import Callback  # noqa: E402

WORLDS, BINS, MARGIN_SHARE = 8, 50, 0.1
OURS, SB3 = "gpu_vecenv", "Stable-Baselines3"
LIBRARIES = {OURS: OTHERS[0], SB3: OTHERS[1]}
"""Libraries, with the colours and styles of their curves."""

SHARED: dict[str, Any] = {
    "num_steps": 128, "num_epochs": 10, "gae_lambda": 0.95, "clip_coef": 0.2, "entropy_coef": 0.0, "value_coef": 0.5,
    "max_grad_norm": 0.5, "adam_eps": 1e-5, "hidden_sizes": [64, 64],
}  # fmt: skip
"""Hyperparameters of both cases, in SB3's meaning."""


@dataclass(frozen=True)
class Case:
    """An env, its hyperparameters, and the range of its returns."""

    env_id: str
    total_steps: int
    learning_rate: float
    gamma: float
    num_minibatches: int
    random: float
    """Mean return of random actions, over 1,000 episodes."""
    best: float
    """Return of a policy that has learned the env."""

    @property
    def margin(self) -> float:
        """Largest difference of mean areas that counts as equivalent."""
        return MARGIN_SHARE * (self.best - self.random)


CASES = {
    "cartpole": Case("WarpCartPole-v1", 100_000, 1e-3, 0.99, 4, random=22.0, best=500.0),
    "pendulum": Case("WarpPendulum-v1", 200_000, 1e-3, 0.9, 8, random=-1223.0, best=-150.0),
}


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    cases: tuple[str, ...] = tuple(CASES)
    """Names of ``CASES``."""
    seeds: int = 10
    """Runs of a case and library, with the seeds 0, 1, ..."""
    workers: int = len(os.sched_getaffinity(0))
    """Runs at a time."""
    total_steps: int | None = None
    """Steps of a run; None: those of the case."""
    out: Path = ROOT / "benchmarks" / "results" / "against_sb3.json"
    """File of the results."""
    figure: Path = ROOT / "docs" / "figures" / "against_sb3.png"
    """File of the picture."""
    draw_only: bool = False
    """Run nothing."""


Episodes = list[tuple[int, float]]
"""Steps of all worlds when each episode ended, and its return."""


class Record(Callback):
    """Sums the rewards of each world step by step, apart from the trainer's own statistics."""

    def __init__(self) -> None:
        """Start without episodes."""
        self.episodes: Episodes = []
        self.total = np.zeros(WORLDS)

    def on_iteration(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        """Add a rollout."""
        samples = trainer.parts.rows["agent"].samples()
        reward, ended = samples.reward.numpy(), samples.ended.numpy()  # (T, worlds)
        first = int(metrics["steps"]) - reward.size
        for t in range(len(reward)):
            self.total += reward[t]
            self.episodes += [(first + (t + 1) * WORLDS, float(x)) for x in self.total[ended[t]]]
            self.total[ended[t]] = 0.0


def trainer_of(
    case: Case, total_steps: int, seed: int, callbacks: Sequence[Callback] = (), network: NetworkConfig | None = None,
    sequence_length: int | None = None, env_kwargs: Mapping[str, Any] | None = None,
) -> Trainer:  # fmt: skip
    """Return a trainer of this package; ``network`` is that of ``SHARED`` by default, and the other options are the trainer's."""
    ppo = PPOConfig(
        num_steps=SHARED["num_steps"],
        num_epochs=SHARED["num_epochs"],
        num_minibatches=case.num_minibatches,
        learning_rate=case.learning_rate,
        learning_rate_schedule="constant",
        gamma=case.gamma,
        gae_lambda=SHARED["gae_lambda"],
        clip_coef=SHARED["clip_coef"],
        clip_value=False,
        value_coef=2 * SHARED["value_coef"],  # the trainer's value loss is half of SB3's
        entropy_coef=SHARED["entropy_coef"],
        max_grad_norm=SHARED["max_grad_norm"],
        normalize_advantages="minibatch",
        normalize_observations=False,
        normalize_rewards=False,
        bootstrap_at_time_limit=True,
        sequence_length=sequence_length,
    )
    network = network or NetworkConfig(tuple(SHARED["hidden_sizes"]), "tanh", shared_trunk=False, log_std=0.0)
    config = TrainConfig(
        case.env_id, WORLDS, total_steps, seed, "cpu", ppo=ppo, network=network, env_kwargs=dict(env_kwargs or {})
    )
    return Trainer(config, quiet=True, callbacks=callbacks)


def train_ours(case: Case, total_steps: int, seed: int) -> Episodes:
    """Train with this package; return the finished episodes."""
    record = Record()
    trainer = trainer_of(case, total_steps, seed, [record])
    trainer.train()
    trainer.close()
    return record.episodes


def train_sb3(case: Case, total_steps: int, seed: int) -> Episodes:
    """Train with Stable-Baselines3; return the finished episodes."""
    from gymnasium.spaces import Box
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import VecEnvWrapper

    from gpu_vecenv.adapters.sb3 import Sb3VecEnv

    class Scaled(VecEnvWrapper):
        """An env whose actions are in [-1, 1]."""

        def __init__(self, env: Sb3VecEnv):
            self.low, self.high = env.action_space.low, env.action_space.high
            super().__init__(env, action_space=Box(-1.0, 1.0, env.action_space.shape, np.float32))

        def reset(self) -> np.ndarray:
            return self.venv.reset()

        def step_async(self, actions: np.ndarray) -> None:
            self.venv.step_async((self.low + (self.high - self.low) * (actions + 1) / 2).astype(np.float32))

        def step_wait(self) -> Any:
            return self.venv.step_wait()

    class Recorded(BaseCallback):
        """Stores the episodes that the env reports."""

        def __init__(self) -> None:
            super().__init__()
            self.episodes: Episodes = []

        def _on_step(self) -> bool:
            ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
            self.episodes += [(self.num_timesteps, float(x)) for x in ended]
            return True

    env: Any = Sb3VecEnv(case.env_id, num_envs=WORLDS, device="cpu")
    if isinstance(env.action_space, Box):
        env = Scaled(env)
    record = Recorded()
    model_of(case, env, seed).learn(total_steps, callback=record)
    env.close()
    return record.episodes


def model_of(case: Case, env: Any, seed: int, lstm: Mapping[str, Any] | None = None) -> Any:
    """Return Stable-Baselines3's PPO on some worlds; with ``lstm``, options of its policy, sb3-contrib's recurrent one."""
    if lstm is None:
        from stable_baselines3 import PPO as ALGORITHM
    else:
        from sb3_contrib import RecurrentPPO as ALGORITHM

    return ALGORITHM(
        "MlpPolicy" if lstm is None else "MlpLstmPolicy",
        env,
        n_steps=SHARED["num_steps"],
        batch_size=WORLDS * SHARED["num_steps"] // case.num_minibatches,
        n_epochs=SHARED["num_epochs"],
        learning_rate=case.learning_rate,
        gamma=case.gamma,
        gae_lambda=SHARED["gae_lambda"],
        clip_range=SHARED["clip_coef"],
        clip_range_vf=None,
        normalize_advantage=True,
        ent_coef=SHARED["entropy_coef"],
        vf_coef=SHARED["value_coef"],
        max_grad_norm=SHARED["max_grad_norm"],
        policy_kwargs={
            "net_arch": {"pi": SHARED["hidden_sizes"], "vf": SHARED["hidden_sizes"]},
            "activation_fn": torch.nn.Tanh,
            "ortho_init": True,
            "log_std_init": 0.0,
            "optimizer_kwargs": {"eps": SHARED["adam_eps"]},
            **(lstm or {}),
        },
        seed=seed,
        device="cpu",
    )


def curve(episodes: Episodes, total_steps: int) -> list[float]:
    """Return the mean return of the episodes that end in each part of the run; episodes after ``total_steps`` do not count.

    A part without one repeats the part before; parts before the first episode have the first one's.
    """
    edges = np.linspace(0, total_steps, BINS + 1)
    steps, returns = np.array(episodes, dtype=float).reshape(-1, 2).T
    part = np.searchsorted(edges, steps, side="left") - 1  # edges[part] < steps <= edges[part + 1]
    means = [returns[part == k].mean() if (part == k).any() else math.nan for k in range(BINS)]
    known = [k for k, mean in enumerate(means) if not math.isnan(mean)]
    return [float(means[max((j for j in known if j <= k), default=known[0])]) for k in range(BINS)]


def train(name: str, library: str, seed: int, total_steps: int) -> dict[str, Any]:
    """Train one run.

    Returns:
        ``curve`` of ``BINS`` returns, and their mean ``area``.
    """
    torch.set_num_threads(1)
    start = time.perf_counter()
    episodes = (train_ours if library == OURS else train_sb3)(CASES[name], total_steps, seed)
    seconds, returns = time.perf_counter() - start, curve(episodes, total_steps)
    return {
        "library": library, "seed": seed, "seconds": seconds, "episodes": len(episodes), "area": float(np.mean(returns)),
        "curve": returns,
    }  # fmt: skip


def measure(options: Options) -> None:
    """Run all cases, libraries and seeds; write the results after each run, so that an interruption leaves what is done."""
    results = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "against_sb3", "cases": {}}
    facts = machine("cpu") | {"stable_baselines3": installed("stable-baselines3")}
    totals = {name: options.total_steps or CASES[name].total_steps for name in options.cases}
    for name in options.cases:
        settings = {**SHARED, **vars(CASES[name]), "total_steps": totals[name], "num_envs": WORLDS}
        results["cases"][name] = {"machine": facts, "settings": settings, "margin": CASES[name].margin, "runs": []}
    os.environ["GPU_VECENV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes of the runs
    with shared.process_pool(options.workers) as pool:
        # The longest runs first.
        cases = [
            (name, library, seed) for name in reversed(options.cases) for seed in range(options.seeds) for library in LIBRARIES
        ]
        jobs = {pool.submit(train, *case, totals[case[0]]): case for case in cases}
        for job in as_completed(jobs):
            name, run = jobs[job][0], job.result()
            runs = results["cases"][name]["runs"]
            runs.append(run)
            runs.sort(key=lambda each: (each["library"], each["seed"]))
            results["cases"][name]["comparison"] = compare(runs, CASES[name].margin)
            shared.write(options.out, results, "cases")
            print(f"{name} {run['library']} seed {run['seed']}: area {run['area']:.1f} after {run['seconds']:.0f} s", flush=True)


def compare(runs: list[dict[str, Any]], margin: float) -> dict[str, Any]:
    """Compare the areas of both libraries, ours minus SB3's; see ``shared.equivalence()``."""
    ours, theirs = ([run["area"] for run in runs if run["library"] == library] for library in LIBRARIES)
    comparison = shared.equivalence(ours, theirs, margin)
    return {"mean_area": {OURS: float(np.mean(ours)), SB3: float(np.mean(theirs))}, **comparison} if comparison else {}


def table(results: dict[str, Any]) -> None:
    """Print the comparison of each case."""
    print("\nmean return over training; difference with its 95 % interval by bootstrap; two one-sided tests")
    print(f"{'case':<10} {OURS:>12} {SB3:>18} {'difference':>11} {'95 % interval':>20} {'margin':>8} {'p':>8}")
    for name, row in results["cases"].items():
        areas = row.get("comparison")
        if not areas:
            print(f"{name:<10} too few runs")
            continue
        low, high = areas["bootstrap_95"]
        means, verdict = areas["mean_area"], "equivalent" if areas["equivalent"] else "not shown to be equivalent"
        print(
            f"{name:<10} {means[OURS]:12.1f} {means[SB3]:18.1f} {areas['difference']:11.1f} {f'{low:.1f} to {high:.1f}':>20} "
            f"{row['margin']:8.1f} {areas['p_value']:8.4f}  {verdict}"
        )


def draw(results: dict[str, Any], path: Path, titles: Mapping[str, str] | None = None) -> None:
    """Draw a panel for each case: the mean curve of each library with its 95 % interval by Student's t.

    Args:
        results: what the file of results holds.
        path: file of the picture.
        titles: those of the panels by case; None takes the ids of the envs.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = results["cases"]
    figure, grid = pyplot.subplots(1, len(rows), figsize=(5.2 * len(rows), 3.8), layout="constrained", squeeze=False)
    for axes, (name, row) in zip(grid.flat, rows.items(), strict=True):
        settings = row["settings"]
        middles = (np.arange(BINS) + 0.5) * settings["total_steps"] / BINS
        for library, look in LIBRARIES.items():
            curves = np.array([run["curve"] for run in row["runs"] if run["library"] == library])
            mean, count = curves.mean(0), len(curves)
            axes.plot(middles, mean, lw=1.4, label=f"{library}: mean of {count} seeds, 95 % interval", **look)
            if count > 1:
                half = student_quantile(0.975, count - 1) * curves.std(0, ddof=1) / math.sqrt(count)
                axes.fill_between(middles, mean - half, mean + half, color=look["color"], alpha=0.2, lw=0)
        axes.axhline(settings["random"], color=NEUTRAL["color"], lw=0.9, ls="--", label="random actions")
        shared.label(axes, settings["env_id"] if titles is None else titles[name], "return of an episode")
    shared.legend(figure, grid.flat)
    shared.save(figure, path)


if __name__ == "__main__":
    shared.run(tyro.cli(Options, description=__doc__), measure, table, draw)
