"""Training on 1, 2, 4, ... GPUs of a host: ``python benchmarks/weak_scaling.py``.

torchrun starts every count of processes, and each of them trains the same runs. In weak scaling, each GPU has the same number of
worlds, and minibatches grow with the number of GPUs. In strong scaling, the worlds of one GPU are divided over all. A figure is
the rate of all processes together, the median over rounds. Start-up is not timed. The time of one sum over processes is measured
for several sizes, see ``sums_of_processes.py``.

Results are written after each count. ``--device cpu`` has small runs, whose processes share the cores. The file
``benchmarks/results/weak_scaling.json`` keeps what other devices recorded.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))
import torch  # noqa: E402
from sums_of_processes import microseconds_of_sums  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.bench.settings import EXTENDED, Setting, four_by_four  # noqa: E402
from gpu_vecenv.train import Trainer  # noqa: E402
from gpu_vecenv.train.processes.group import Processes  # noqa: E402
from gpu_vecenv.train.processes.join import joined, own_device  # noqa: E402

WARM_UP = 5
"""Iterations before the timed ones; a CUDA graph is captured in the third."""

CARTPOLE, TAG = "WarpCartPole-v1", "WarpTag-v0"

WAYS: dict[str, dict[str, Any]] = {
    "eager": {"kernels": "torch", "graph": False},
    "graph": {"kernels": "torch", "graph": True},
    "fused": {"kernels": "fused", "graph": True},
    "cpu": {"kernels": "torch"},
}
"""Ways to run iterations."""


@dataclass(frozen=True)
class Row:
    """A run to measure, with the settings of the benchmark of training."""

    env: str
    worlds: int
    """Worlds of each process, or of all processes in strong scaling."""
    way: str
    """One of ``WAYS``; with `` by NCCL`` behind it, no sum is direct."""
    num_steps: int
    weak: bool = True

    @property
    def name(self) -> str:
        """Name of the row, the same for every count."""
        return f"{self.env}, {self.worlds:,} x {self.num_steps}, {self.way}, {'weak' if self.weak else 'strong'}"

    def setting(self, count: int) -> Setting:
        """Return the case of some processes."""
        worlds = self.worlds * (count if self.weak else 1)
        return Setting(self.env, worlds, EXTENDED if self.env == TAG else {}, ppo=four_by_four(self.num_steps))


ROWS = {
    "cuda": (
        Row(CARTPOLE, 8_192, "fused", 128),
        Row(TAG, 2_000, "fused", 16),
        Row(CARTPOLE, 2_048, "fused", 128),
        Row(CARTPOLE, 8_192, "fused", 128, weak=False),
        Row(TAG, 2_000, "fused", 16, weak=False),
        Row(CARTPOLE, 8_192, "fused by NCCL", 128),
        Row(TAG, 2_000, "graph", 16),
    ),
    "cpu": (Row(CARTPOLE, 32, "cpu", 16), Row(TAG, 4, "cpu", 16), Row(TAG, 4, "cpu", 16, weak=False)),
}
"""Rows to measure, by kind of device, the most important first. Networks have two layers of 64 units."""

BARS = {ROWS["cuda"][0].name: {2: 1.8, 4: 3.4}, ROWS["cuda"][1].name: {2: 1.9, 4: 3.7}}
"""Rates that weak scaling must reach, in rates of one GPU, by count."""


def measured(row: Row, options: argparse.Namespace, processes: Processes | None) -> dict[str, Any]:
    """Return the median rate of all processes, and the smallest and the largest one."""
    count = 1 if processes is None else processes.count
    way, _, by = row.way.partition(" by ")
    config = row.setting(count).config(options.device, 1, **WAYS[way])
    trainer, direct = Trainer(config, quiet=True, processes=processes), None
    if processes is not None:
        direct, processes.direct = processes.direct, None if by else processes.direct
    trainer.train(WARM_UP)

    def rate(iterations: int) -> float:
        start = time.perf_counter()
        trainer.train(iterations)
        return iterations * trainer.steps_per_iteration / (time.perf_counter() - start)

    iterations = max(2, round(options.seconds * rate(WARM_UP) / trainer.steps_per_iteration))
    if processes is not None:
        iterations = processes.from_first(lambda: iterations)
    rates = [rate(iterations) for _ in range(options.rounds)]
    reason = getattr(trainer.executor, "reason", "")
    trainer.close()
    if processes is not None:
        processes.direct = direct
    row_rates = {"steps_per_second": statistics.median(rates), "least": min(rates), "most": max(rates), "iterations": iterations}
    return row_rates | ({"no_graph": reason} if reason and config.graph else {})


def measure(options: argparse.Namespace) -> None:
    """Measure in one process of several, and write the results of the first one."""
    with joined(options.device) as processes:
        device, rows = own_device(options.device), {}
        writes = processes is None or processes.is_first
        sums = [] if processes is None or processes.count == 1 else microseconds_of_sums(processes, device)
        summed_by = None if processes is None else processes.summed_by
        for row in ROWS[options.device][: options.first]:
            if " by " in row.way and (processes is None or processes.direct is None):
                continue  # the same as the row without it
            rows[row.name] = measured(row, options, processes)
            if writes:
                print(1 if processes is None else processes.count, row.name, rows[row.name], flush=True)
                options.result.write_text(json.dumps({"rates": rows, "sums": sums, "summed_by": summed_by}))


def started(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return what some processes measured."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), __file__]
        words += ["--device", options.device, "--seconds", str(options.seconds), "--rounds", str(options.rounds)]
        words += ["--result", str(result)] + ([] if options.first is None else ["--first", str(options.first)])
        subprocess.run(words, check=True, env={"OMP_NUM_THREADS": "1", **os.environ})
        return dict(json.loads(result.read_text()))


def with_times(results: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Add to each rate how many times that of one process it is."""
    for result in results.values():
        for name, row in result["rates"].items():
            row["times"] = row["steps_per_second"] / results[1]["rates"][name.replace(" by NCCL", "")]["steps_per_second"]
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
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, help="most processes; by default all GPUs, or cores")
    parser.add_argument("--first", type=int, help="measure the first rows alone")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/weak_scaling.json"))
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.result is not None:
        return measure(options)
    results: dict[int, dict[str, Any]] = {}
    facts = machine("cuda:0" if options.device == "cuda" else "cpu")
    command = f"python {sys.argv[0]} --device {options.device} --seconds {options.seconds} --rounds {options.rounds}"
    for count in counts_of(options.device, options.most):
        start = time.perf_counter()
        results[count] = started(count, options)
        print(f"{count}: {time.perf_counter() - start:.0f} s", flush=True)
        recorded = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "weak_scaling", "devices": {}}
        recorded["devices"][options.device] = {"command": command, "machine": facts, "counts": with_times(results)}
        options.out.write_text(json.dumps(recorded, indent=1) + "\n")
    for count, result in results.items():
        for name, row in result["rates"].items():
            bar = BARS.get(name, {}).get(count)
            holds = "" if bar is None else f", {'at least' if row['times'] >= bar else 'BELOW'} {bar}"
            print(f"{count} {name}: {row['steps_per_second']:,.0f} steps/s, {row['times']:.3f} times that of 1{holds}")
        for row in result["sums"]:
            print(f"{count} {4 * row['numbers']:,} bytes by {row['by']} {row['place']}: {row['microseconds']:.1f} us")


if __name__ == "__main__":
    main()
