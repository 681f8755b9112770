"""Time of iterations with a memory: ``python benchmarks/memory_speed.py [--device cuda:0]``.

PPO on CartPole, 4 epochs of 4 minibatches, with the feed-forward network and with a GRU of 64 units that actor and critic share
and that reads the observation, from segments of 16 steps and from whole sequences. Each way is timed in turn, round after round;
a time is the median of the rounds, in milliseconds an iteration. Prints which kernels ran.

``--purejaxrl`` is the folder of PureJaxRL's scripts. Its recurrent PPO then runs with sequences of both lengths and as many
transitions: with a GRU and layers of 64 units, and with the 128 of its script; see ``peers_jax.py``.

Writes ``benchmarks/results/memory_speed.json``. With ``--profile`` it prints the time of each kernel in an iteration instead, and
writes nothing; kernels may overlap, so their times add up to more than an iteration.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tyro
from torch.profiler import ProfilerActivity, profile

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from peer_process import measured  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.bench.timing import synchronise  # noqa: E402
from gpu_vecenv.bench.training import WARM_UP, run_iterations  # noqa: E402
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer  # noqa: E402

TOTAL_STEPS = 10**12
"""Steps of the run, so many that a benchmark never ends it."""

KERNELS = 16
"""Most kernels that a profile has."""

GRU = NetworkConfig((), memory="gru", memory_size=64)
"""One memory, and the last layers of actor and critic."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    device: str = "cuda:0"
    """``cpu`` or ``cuda:0``."""
    worlds: int = 2_048
    """Worlds."""
    num_steps: int = 128
    """Steps of a rollout, and of a whole sequence."""
    segment: int = 16
    """Steps of a segment."""
    rounds: int = 9
    """Times that each way is timed."""
    iterations: int = 20
    """Iterations of a round."""
    profile: bool = False
    """Print the times of kernels on a GPU."""
    purejaxrl: Path | None = None
    """Folder of PureJaxRL's scripts."""
    peer_seconds: float = 120.0
    """Most seconds of a process of PureJaxRL."""
    out: Path = ROOT / "benchmarks" / "results" / "memory_speed.json"
    """File of the results."""


def configs(options: Options) -> dict[str, TrainConfig]:
    """Return the runs by way."""
    ppo = PPOConfig(num_steps=options.num_steps, num_epochs=4, num_minibatches=4)
    segments = dataclasses.replace(ppo, sequence_length=options.segment)
    runs = {
        "feed-forward": TrainConfig("WarpCartPole-v1", ppo=ppo, network=NetworkConfig()),
        f"GRU, segments of {options.segment}": TrainConfig("WarpCartPole-v1", ppo=segments, network=GRU),
        f"GRU, sequences of {options.num_steps}": TrainConfig("WarpCartPole-v1", ppo=ppo, network=GRU),
    }
    shared = {"num_envs": options.worlds, "total_steps": TOTAL_STEPS, "device": options.device}
    kernels = ("auto", "torch") if options.device != "cpu" else ("auto",)
    return {f"{name}, {each}": dataclasses.replace(run, kernels=each, **shared) for name, run in runs.items() for each in kernels}


def print_kernels(name: str, trainer: Trainer, options: Options) -> None:
    """Print microseconds and launches of the kernels of an iteration, by the profiler of torch."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run_iterations(trainer, options.iterations)
        synchronise(options.device)
    print(f"{name}: us an iteration, launches")
    events = sorted(seen.key_averages(), key=lambda event: -event.self_device_time_total)
    for event in events[:KERNELS]:
        us, count = event.self_device_time_total / options.iterations, event.count / options.iterations
        print(f"  {us:10.1f} {count:8.1f}  {event.key[:90]}")


def purejaxrl_rows(options: Options) -> dict[str, Any]:
    """Return the rows of PureJaxRL's recurrent PPO."""
    many = options.worlds * options.num_steps // options.segment
    ways = {
        f"PureJaxRL, 64 units, sequences of {options.num_steps}": (options.worlds, options.num_steps, ["--narrow"]),
        f"PureJaxRL, 64 units, sequences of {options.segment}": (many, options.segment, ["--narrow"]),
        f"PureJaxRL, 128 units, sequences of {options.num_steps}": (options.worlds, options.num_steps, []),
    }
    rows = {}
    for name, (worlds, steps, more) in ways.items():
        arguments = ["purejaxrl", "--source", str(options.purejaxrl), "--num-envs", str(worlds), "--num-steps", str(steps), *more]
        rows[name] = measured(ROOT / "benchmarks" / "peers_jax.py", arguments, options.peer_seconds)
        print(name, rows[name], flush=True)
    return rows


def main(options: Options) -> None:
    """Time all ways, print and write the results."""
    trainers = {name: Trainer(config, quiet=True) for name, config in configs(options).items()}
    if options.profile:
        for name, trainer in trainers.items():
            run_iterations(trainer, WARM_UP)
            print_kernels(name, trainer, options)
            trainer.close()
        return
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for trainer in trainers.values():
        run_iterations(trainer, WARM_UP)
    for _ in range(options.rounds):
        for name, trainer in trainers.items():
            synchronise(options.device)
            start = time.perf_counter()
            run_iterations(trainer, options.iterations)
            synchronise(options.device)
            seconds[name].append((time.perf_counter() - start) / options.iterations)
    rows: dict[str, Any] = {}
    for name, trainer in trainers.items():
        reasons = [*trainer.parts.not_fused.values(), getattr(trainer.executor, "reason", "")]
        why = "; ".join(filter(None, reasons))
        rows[name] = {"ms": 1e3 * median(seconds[name]), "rounds_s": seconds[name], "by_torch_because": why}
        print(f"{name:<32} {rows[name]['ms']:10.3f} ms   {why}")
        trainer.close()
    rows |= purejaxrl_rows(options) if options.purejaxrl is not None else {}
    settings = {name: value for name, value in vars(options).items() if name not in ("out", "purejaxrl")}
    results = {"benchmark": "memory_speed", "machine": machine(options.device), "options": settings, "ways": rows}
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
