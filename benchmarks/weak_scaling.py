"""Training on 1, 2, 4, ... GPUs of a host, each with the same number of worlds: ``python benchmarks/weak_scaling.py``.

Every count of processes is started by torchrun. Each of them trains the same runs, once operation by operation, once as a CUDA
graph, and once with fused kernels in a graph. A figure is the rate of all processes together, the median over rounds; the
efficiency is the rate divided by the number of processes times the rate of one. Minibatches grow with the number of processes, so
each process has the same work. Start-up is not timed. The time of one sum over processes is measured for several sizes.

``--device cpu`` has small runs, whose processes share the cores. The file ``benchmarks/results/weak_scaling.json`` keeps what
other devices recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
import torch  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.train import PPOConfig, TrainConfig, Trainer  # noqa: E402
from gpu_vecenv.train.processes.group import Processes  # noqa: E402
from gpu_vecenv.train.processes.join import joined, own_device  # noqa: E402

WARM_UP = 5
"""Iterations before the timed ones; a CUDA graph is captured in the third."""

WORLDS = {
    "cpu": {"WarpCartPole-v1": 32, "WarpTag-v0": 2},
    "cuda": {"WarpCartPole-v1": 16_384, "WarpTag-v0": 1_000},
}
"""Worlds of a process by env, by kind of device; other options are those of presets, but for the rollout of Tag."""

OPTIONS: dict[str, dict[str, Any]] = {"WarpCartPole-v1": {}, "WarpTag-v0": {"ppo": PPOConfig(num_steps=25)}}

WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "cpu": {"eager": {"kernels": "torch"}},
    "cuda": {
        "eager": {"kernels": "torch", "graph": False},
        "graph": {"kernels": "torch", "graph": True},
        "fused": {"kernels": "fused", "graph": True},
    },
}
"""Ways to run iterations by kind of device."""

SIZES = (1, 256, 16_384, 262_144, 4_194_304)
"""Numbers of float32 in a sum over processes."""


def steps_per_second(config: TrainConfig, iterations: int, rounds: int, processes: Processes | None) -> dict[str, float]:
    """Return the median rate of all processes, and the smallest and the largest one."""
    trainer, rates = Trainer(config, quiet=True, processes=processes), []
    trainer.train(WARM_UP)
    for _ in range(rounds):
        start = time.perf_counter()
        trainer.train(iterations)
        rates.append(iterations * trainer.steps_per_iteration / (time.perf_counter() - start))
    reason = getattr(trainer.executor, "reason", "")
    trainer.close()
    if reason and config.graph:
        print(f"{config.env_id}: no graph: {reason}", flush=True)
    return {"steps_per_second": statistics.median(rates), "least": min(rates), "most": max(rates)}


def seconds_of_sum(size: int, processes: Processes, device: str, times: int = 200) -> float:
    """Return the seconds of a sum of ``size`` numbers over processes, a mean over sums that follow each other."""
    summands = torch.zeros(size, device=device)
    for _ in range(10):
        processes.sum(summands)
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        processes.sum(summands)
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


def measure(options: argparse.Namespace) -> None:
    """Measure in one process of several, and write the results of the first one."""
    with joined(options.device) as processes:
        count, device = (1 if processes is None else processes.count), own_device(options.device)
        kind, rows = device.partition(":")[0], {}
        for env_id, worlds in WORLDS[kind].items():
            for way, how in WAYS[kind].items():
                config = TrainConfig(
                    env_id, num_envs=worlds * count, total_steps=2**60, device=kind, **OPTIONS[env_id], **how
                )  # fmt: skip
                rows[f"{env_id}, {way}"] = steps_per_second(config, options.iterations, options.rounds, processes)
                if processes is None or processes.is_first:
                    print(count, env_id, way, rows[f"{env_id}, {way}"], flush=True)
        sums = {} if processes is None else {size: 1e6 * seconds_of_sum(size, processes, device) for size in SIZES}
        if processes is None or processes.is_first:
            backend = None if processes is None else processes.backend
            result = {"rates": rows, "microseconds_of_sum": sums, "backend": backend}
            options.result.write_text(json.dumps(result))


def started(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return what some processes measured."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), __file__]
        words += ["--device", options.device, "--iterations", str(options.iterations), "--rounds", str(options.rounds)]
        subprocess.run([*words, "--result", str(result)], check=True, env={"OMP_NUM_THREADS": "1", **os.environ})
        return dict(json.loads(result.read_text()))


def with_efficiency(results: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Add the efficiency to the rates of each count."""
    for count, result in results.items():
        for name, row in result["rates"].items():
            row["efficiency"] = row["steps_per_second"] / (count * results[1]["rates"][name]["steps_per_second"])
    return results


def counts_of(device: str, most: int | None) -> list[int]:
    """Return 1, 2, 4, ... processes, up to the number of GPUs, or of cores."""
    available = torch.cuda.device_count() if device != "cpu" else os.cpu_count() or 1
    largest = most or available
    return [count for count in (2**i for i in range(10)) if count <= largest]


def main() -> None:
    """Measure with every count of processes and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=int, help="most processes; by default all GPUs, or cores")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/weak_scaling.json"))
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.result is not None:
        return measure(options)
    results = with_efficiency({count: started(count, options) for count in counts_of(options.device, options.most)})
    recorded = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "weak_scaling", "devices": {}}
    facts = machine("cuda:0" if options.device == "cuda" else "cpu")
    command = f"python {sys.argv[0]} --device {options.device} --iterations {options.iterations} --rounds {options.rounds}"
    worlds = {env_id: worlds for env_id, worlds in WORLDS[options.device].items()}
    recorded["devices"][options.device] = {"command": command, "machine": facts, "worlds_of_a_process": worlds, "counts": results}
    options.out.write_text(json.dumps(recorded, indent=1) + "\n")
    for count, result in results.items():
        for name, row in result["rates"].items():
            print(f"{count} {name}: {row['steps_per_second']:,.0f} steps/s, efficiency {row['efficiency']:.3f}")


if __name__ == "__main__":
    main()
