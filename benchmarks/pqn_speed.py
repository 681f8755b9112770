"""Speed of PQN on CartPole: ``python benchmarks/pqn_speed.py --device cuda:0 --purejaxql FOLDER``.

Two layers of 256 units with layer norm, as in purejaxql's ``pqn_cartpole.yaml``, whose 32 worlds, 64 steps and 4 epochs of 16
minibatches are the first setting. The second has 2,048 worlds, 128 steps and 4 epochs of 4 minibatches. Rates are medians of
several rounds of iterations, env steps included. JAX computes products in TF32 by default on GPUs that have it
(``jax.lax.Precision.DEFAULT``), so this package has rows in ``tf32`` beside those in ``float32``.
``--purejaxql`` is the folder of purejaxql's scripts; see ``peers_jax.py``.

Writes ``benchmarks/results/pqn_speed.json``; rows that are not run again stay.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from peer_process import measured  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.bench.timing import synchronise  # noqa: E402
from gpu_vecenv.bench.training import WARM_UP, run_iterations  # noqa: E402
from gpu_vecenv.train import NetworkConfig, PQNConfig, TrainConfig, Trainer  # noqa: E402
from gpu_vecenv.train.config import Precision  # noqa: E402

NETWORK = NetworkConfig((256, 256), "relu", layer_norm=True)
SETTINGS = {"as shipped": (32, 64, 4, 16), "many worlds": (2_048, 128, 4, 4)}
"""Worlds, steps of a rollout, epochs and minibatches of an epoch."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    device: str = "cuda:0"
    """``cpu`` or ``cuda:0``."""
    settings: tuple[str, ...] = tuple(SETTINGS)
    """Settings to measure."""
    precisions: tuple[Precision, ...] = ("float32", "tf32")
    """Values of ``TrainConfig.precision``."""
    rounds: int = 5
    """Times that each setting is timed."""
    iterations: int = 20
    """Iterations of a round."""
    profile: bool = False
    """Also print which kernels take most of the time of two iterations."""
    purejaxql: Path | None = None
    """Folder of purejaxql's scripts."""
    peer_seconds: float = 120.0
    """Most seconds of a process of purejaxql."""
    out: Path = ROOT / "benchmarks" / "results" / "pqn_speed.json"
    """File of the results."""


def measure_ours(setting: str, precision: Precision, options: Options) -> dict[str, Any]:
    """Return milliseconds an iteration and env steps a second of this package."""
    worlds, steps, epochs, minibatches = SETTINGS[setting]
    pqn = PQNConfig(
        num_steps=steps, num_epochs=epochs, num_minibatches=minibatches, learning_rate=1e-4, q_lambda=0.95, epsilon_final=0.2,
        reward_scale=0.1, normalize_observations=False,
    )  # fmt: skip
    config = TrainConfig(
        "WarpCartPole-v1", worlds, 10**12, 0, options.device, network=NETWORK, algorithm="pqn", algorithms={"pqn": pqn},
        precision=precision,
    )  # fmt: skip
    trainer = Trainer(config, quiet=True)
    run_iterations(trainer, WARM_UP)
    seconds = []
    for _ in range(options.rounds):
        synchronise(options.device)
        start = time.perf_counter()
        run_iterations(trainer, options.iterations)
        synchronise(options.device)
        seconds.append((time.perf_counter() - start) / options.iterations)
    why = getattr(trainer.executor, "reason", "")
    if options.profile:
        with torch.profiler.profile() as profile:
            run_iterations(trainer, 2)
            synchronise(options.device)
        order = "self_cpu_time_total" if options.device == "cpu" else "self_device_time_total"
        print(profile.key_averages().table(sort_by=order, row_limit=30, max_name_column_width=90), flush=True)
    trainer.close()
    rates = {"ms": 1e3 * median(seconds), "steps_per_second": worlds * steps / median(seconds)}
    return {**rates, "seconds": seconds, "no_graph": why}


def measure_purejaxql(setting: str, options: Options) -> dict[str, Any]:
    """Return the same of purejaxql."""
    worlds, steps, epochs, minibatches = map(str, SETTINGS[setting])
    arguments = ["purejaxql", "--source", str(options.purejaxql), "--num-envs", worlds, "--num-steps", steps]
    arguments += ["--epochs", epochs, "--minibatches", minibatches, "--updates", str(options.iterations)]
    return measured(ROOT / "benchmarks" / "peers_jax.py", arguments, options.peer_seconds)


def main(options: Options) -> None:
    """Measure, print and write all rows."""
    results = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "pqn_speed", "rows": {}}
    facts = machine(options.device)
    for setting in options.settings:
        rows = {
            f"{setting}, gpu_vecenv{'' if each == 'float32' else f', {each}'}": measure_ours(setting, each, options)
            for each in options.precisions
        }
        if options.purejaxql is not None:
            rows[f"{setting}, purejaxql"] = measure_purejaxql(setting, options)
        for name, row in rows.items():
            results["rows"][name] = {"machine": facts, **row}
            print(name, row, flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
