"""Speed of PPO on a CPU core beside SB3 at equal settings: ``python benchmarks/ppo_cpu.py``.

CartPole and Pendulum with the settings of ``against_sb3.py``: 8 worlds, rollouts of 128 steps, 10 epochs, two layers of 64. SB3
runs twice: on the worlds of this package by ``Sb3VecEnv``, and on those of Gymnasium, as its users have them. All take turns in
one process with one thread. Rates are medians of the rounds, by the clock and by the time of the process on a core.

Writes ``benchmarks/results/ppo_cpu.json``; rows that are not run again stay.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["GPU_VECENV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read at the imports below

import torch  # noqa: E402
import tyro  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from against_sb3 import CASES, SHARED, WORLDS, Case, model_of, trainer_of  # noqa: E402
from off_policy_cpu import rates_in_turn  # noqa: E402

from gpu_vecenv.bench.machine import installed, machine  # noqa: E402

ROLLOUT = WORLDS * SHARED["num_steps"]


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    cases: tuple[str, ...] = tuple(CASES)
    """Names of ``CASES`` of ``against_sb3.py``."""
    rounds: int = 7
    """Rounds, after one that does not count."""
    iterations: int = 4
    """Iterations of a round of each library, each of 1,024 steps."""
    out: Path = ROOT / "benchmarks" / "results" / "ppo_cpu.json"
    """File of the results."""


def ours(case: Case, options: Options) -> Callable[[], object]:
    """Return a round of this package."""
    trainer = trainer_of(case, ROLLOUT * options.iterations * (options.rounds + 1), seed=0)
    return lambda: trainer.train(options.iterations)


def sb3(case: Case, env: Any, options: Options) -> Callable[[], object]:
    """Return a round of SB3 on some worlds."""
    model = model_of(case, env, seed=0)
    return lambda: model.learn(ROLLOUT * options.iterations, reset_num_timesteps=False)


def main(options: Options) -> None:
    """Measure, print and write all rows."""
    from stable_baselines3.common.env_util import make_vec_env

    from gpu_vecenv.adapters.sb3 import Sb3VecEnv

    torch.set_num_threads(1)
    rows: dict[str, Any] = json.loads(options.out.read_text())["rows"] if options.out.exists() else {}
    for name in options.cases:
        case = CASES[name]
        libraries = {
            "gpu_vecenv": ours(case, options),
            "sb3, worlds of gpu_vecenv": sb3(case, Sb3VecEnv(case.env_id, num_envs=WORLDS, device="cpu"), options),
            "sb3": sb3(case, make_vec_env(case.env_id.removeprefix("Warp"), WORLDS), options),
        }
        measured = rates_in_turn(libraries, options.rounds, ROLLOUT * options.iterations)
        for library, row in measured.items():
            rows[f"{name} {library}"] = {"machine": machine("cpu"), **row}
        for library in list(libraries)[1:]:
            row, mine = rows[f"{name} {library}"], rows[f"{name} gpu_vecenv"]
            row["times_faster"] = {key: mine[key] / row[key] for key in ("steps_per_second", "steps_per_core_second")}
            print(name, library, row["times_faster"], f"{row['steps_per_core_second']:.0f} a core second", flush=True)
        results = {"benchmark": "ppo_cpu", "sb3": installed("stable_baselines3"), "rows": rows}
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
