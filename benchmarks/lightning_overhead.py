"""Time of iterations in Lightning's loop beside ``Trainer.train()``: ``python benchmarks/lightning_overhead.py --device cuda:0``.

Both run the same iterations by the same executor. Lightning's trainer has a CSV logger that writes every 50th iteration, and its
progress bar, whose output is dropped; ours writes nothing. Start-up is not timed. Rounds alternate, and a figure is the median
over rounds. On a GPU, times are of the wall clock; on the CPU, they are processor times, so that other programs do not count.
Stated beforehand: Lightning's loop takes at most 5 % more.

On a GPU, ``Trainer.train()`` without callbacks has up to 16 iterations in flight. Lightning's loop has those of a training step,
because its callbacks may read the run after each. Steps of one iteration and of the default number are measured.

The file ``benchmarks/results/lightning_overhead.json`` keeps what other devices recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
import lightning.pytorch as lightning  # noqa: E402
from lightning.pytorch.loggers import CSVLogger  # noqa: E402

from gpu_vecenv.adapters.lightning import LightningRun  # noqa: E402
from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.train import PPOConfig, TrainConfig, Trainer  # noqa: E402

WARM_UP = 4
"""Iterations, and training steps, before the timed ones; a CUDA graph is captured in the third."""

CASES = {
    "cpu": {
        "WarpCartPole-v1": TrainConfig("WarpCartPole-v1", 64, 1),
        "WarpTag-v0": TrainConfig("WarpTag-v0", 8, 1, ppo=PPOConfig(num_steps=25)),
    },
    "cuda": {
        "WarpCartPole-v1": TrainConfig("WarpCartPole-v1", 16_384, 1),
        "WarpTag-v0": TrainConfig("WarpTag-v0", 2_000, 1, ppo=PPOConfig(num_steps=50)),
    },
}
"""Runs by kind of device; other options are those of presets."""


class Times(lightning.Callback):
    """Times at which iterations begin."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.times: list[float] = []

    def on_train_batch_start(self, trainer: lightning.Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Read the clock; Lightning calls this."""
        self.times.append(self.clock())


def clock_of(config: TrainConfig) -> Callable[[], float]:
    """Return the clock for a device."""
    return time.process_time if config.device == "cpu" else time.perf_counter


def sized(config: TrainConfig, iterations: int, device: str) -> tuple[TrainConfig, int, int]:
    """Return a run of some iterations more than the warm-up, those that are timed, and those of a step by default.

    The timed iterations are those of whole steps.
    """
    module = LightningRun(dataclasses.replace(config, device=device))
    size, steps = module.step_size, module.run.steps_per_iteration
    module.run.close()
    timed = -(-iterations // size) * size
    return dataclasses.replace(config, device=device, total_steps=steps * (size * (WARM_UP + 1) + timed)), timed, size


def ours(config: TrainConfig, iterations: int) -> float:
    """Return the seconds of an iteration of ``Trainer.train()``."""
    run = Trainer(config, quiet=True)
    run.train(WARM_UP)
    start = clock_of(config)()
    run.train(iterations)
    seconds = clock_of(config)() - start
    run.close()
    return seconds / iterations


def lightnings(config: TrainConfig, iterations: int, per_step: int) -> float:
    """Return the seconds of an iteration in Lightning's loop."""
    module, times = LightningRun(config, iterations_per_step=per_step), Times(clock_of(config))
    screen = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu" if config.device == "cpu" else "gpu", devices=1, logger=CSVLogger(folder),
            default_root_dir=folder, callbacks=[times], limit_val_batches=0, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(module)
    module.run.close()
    return (times.times[WARM_UP + iterations // per_step] - times.times[WARM_UP]) / iterations


def measure(config: TrainConfig, iterations: int, size: int, rounds: int) -> dict[str, Any]:
    """Return the medians of both loops, and the overhead by iterations of a step: the median of the rounds' ratios, less 1.

    Args:
        config: the run.
        iterations: timed iterations.
        size: iterations of a step by default; steps of one are measured, too.
        rounds: measurements of each loop.
    """
    sizes = sorted({1, size})
    times = [(ours(config, iterations), *(lightnings(config, iterations, size) for size in sizes)) for _ in range(rounds)]
    mine, *theirs = zip(*times, strict=True)
    by_size = zip(map(str, sizes), theirs, strict=True)
    return {
        "num_envs": config.num_envs, "iterations": iterations, "rounds": rounds, "default_iterations_per_step": size,
        "trainer_ms": 1e3 * statistics.median(mine),
        "iterations_per_step": {
            size: {
                "lightning_ms": 1e3 * statistics.median(seconds),
                "overhead": statistics.median(b / a for a, b in zip(mine, seconds, strict=True)) - 1,
            }
            for size, seconds in by_size
        },
    }  # fmt: skip


def main() -> None:
    """Measure every case and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0", help="cpu or cuda:0")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/lightning_overhead.json"))
    options = parser.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    rows = {}
    for name, config in CASES[options.device.partition(":")[0]].items():
        config, timed, size = sized(config, options.iterations, options.device)
        rows[name] = measure(config, timed, size, options.rounds)
        print(name, rows[name], flush=True)
    recorded = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "lightning_overhead", "devices": {}}
    facts = machine(options.device) | {"lightning": version("lightning")}
    command = f"python {sys.argv[0]} --device {options.device} --iterations {options.iterations} --rounds {options.rounds}"
    recorded["devices"][options.device] = {"command": command, "machine": facts, "rows": rows}
    options.out.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
