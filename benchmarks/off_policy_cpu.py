"""Speed of SAC, TD3 and DDPG on a CPU core beside SB3: ``python benchmarks/off_policy_cpu.py``.

Pendulum with one world, two layers of 256 units, and a gradient step of a batch of 256 for each step, env steps included. Both
libraries take turns in one process with one thread, round after round, because other work of the machine changes their speeds.
Rates are medians of the rounds, by the clock and by the time of the process on a core, which other work changes less.

Writes ``benchmarks/results/off_policy_cpu.json``; rows that are not run again stay.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import off_policy_speed  # noqa: E402

from gpu_vecenv.bench.machine import installed, machine  # noqa: E402
from gpu_vecenv.train import Trainer  # noqa: E402


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    algorithms: tuple[Literal["sac", "td3", "ddpg"], ...] = ("sac", "td3", "ddpg")
    """Algorithms to measure."""
    rounds: int = 7
    """Rounds, after one that does not count."""
    steps: int = 400
    """Steps of a round of each library."""
    out: Path = ROOT / "benchmarks" / "results" / "off_policy_cpu.json"
    """File of the results."""


def ours(name: str, options: Options) -> Callable[[], object]:
    """Return a round of this package."""
    config = off_policy_speed.config_of(name, "one", off_policy_speed.Options(device="cpu"))
    setup = config.algorithms[name]
    trainer = Trainer(config, quiet=True)
    trainer.train(setup.learning_starts // setup.num_steps)
    return lambda: trainer.train(options.steps // setup.num_steps)


def sb3(name: str, options: Options) -> Callable[[], object]:
    """Return a round of SB3."""
    import gymnasium
    import stable_baselines3

    start = off_policy_speed.COMMON["learning_starts"]
    model = getattr(stable_baselines3, name.upper())(
        "MlpPolicy", gymnasium.make("Pendulum-v1"), batch_size=off_policy_speed.BATCH, learning_starts=start, train_freq=1,
        gradient_steps=1, policy_kwargs={"net_arch": [256, 256]}, device="cpu",
    )  # fmt: skip
    model.learn(start)
    return lambda: model.learn(options.steps, reset_num_timesteps=False)


def main(options: Options) -> None:
    """Measure, print and write all rows."""
    torch.set_num_threads(1)
    rows: dict[str, Any] = json.loads(options.out.read_text())["rows"] if options.out.exists() else {}
    for name in options.algorithms:
        libraries = {"gpu_vecenv": ours(name, options), "sb3": sb3(name, options)}
        seconds: dict[str, list[tuple[float, float]]] = {library: [] for library in libraries}
        for number in range(options.rounds + 1):
            for library, run in libraries.items():
                start, start_on_core = time.perf_counter(), time.process_time()
                run()
                spent = time.perf_counter() - start, time.process_time() - start_on_core
                if number:
                    seconds[library].append(spent)
        for library, spent in seconds.items():
            by_clock, on_core = (options.steps / statistics.median(times) for times in zip(*spent, strict=True))
            rates = {"steps_per_second": by_clock, "steps_per_core_second": on_core}
            rows[f"{name} {library}"] = {"machine": machine("cpu"), "steps": options.steps, **rates, "seconds": spent}
        ours_row, row = rows[f"{name} gpu_vecenv"], rows[f"{name} sb3"]
        ratios = {key: ours_row[key] / row[key] for key in ("steps_per_second", "steps_per_core_second")}
        rows[f"{name} gpu_vecenv"]["of_sb3"] = ratios
        print(name, ratios, {library: rows[f"{name} {library}"]["steps_per_core_second"] for library in libraries}, flush=True)
        results = {"benchmark": "off_policy_cpu", "sb3": installed("stable_baselines3"), "rows": rows}
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
