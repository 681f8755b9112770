"""Time and bytes of replay buffers: ``python benchmarks/replay.py [--device cuda:0] [--case NAME ...]``.

Prints, for each case, the bytes of a transition, and the time of ``add()``, ``sample()`` and ``set_priorities()``: the call by
itself, and on a GPU also as a captured graph replays it. Beside it stand the bytes that the call must move, once each, and their
share of the bandwidth of a copy on the same device. Times are microseconds, the median of several rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_vecenv.train import PPOConfig, Replay, Samples, TrainConfig, Trainer, replay_bytes
from gpu_vecenv.train.storage.sizes import bytes_of

CALLS, ROUNDS = 20, 7
"""Calls of a round."""


@dataclass(frozen=True)
class Case:
    """A rollout, a buffer and its batches."""

    env_id: str
    num_envs: int
    num_steps: int
    size: int
    batch_size: int
    n_steps: int = 1
    exponent: float | None = None
    role: str = "agent"


CASES = {
    "pendulum": Case("WarpPendulum-v1", 4096, 8, 1_000_000, 8192),
    "pendulum, 10^7": Case("WarpPendulum-v1", 4096, 8, 10_000_000, 32768, 3),
    "pendulum, one world": Case("WarpPendulum-v1", 1, 1, 1_000_000, 256),
    "pendulum, priorities": Case("WarpPendulum-v1", 4096, 8, 1_000_000, 8192, 3, 0.6),
    "pendulum, 10^7, priorities": Case("WarpPendulum-v1", 4096, 8, 10_000_000, 32768, 3, 0.6),
    "tag, runners": Case("WarpTag-v0", 1000, 8, 10_000_000, 32768, role="runner"),
    "tag, runners, priorities": Case("WarpTag-v0", 1000, 8, 10_000_000, 32768, 3, 0.6, role="runner"),
}


def filled(case: Case, device: str) -> tuple[Replay, Samples]:
    """Return a buffer that is full of a rollout, and that rollout."""
    ppo = PPOConfig(num_steps=case.num_steps, num_minibatches=1)
    config = TrainConfig(case.env_id, num_envs=case.num_envs, total_steps=10**9, device=device, ppo=ppo)
    trainer = Trainer(config, quiet=True)
    trainer.parts.collector.collect()
    name = case.role if case.role in trainer.parts.rows else next(iter(trainer.parts.rows))
    rows = trainer.parts.rows[name]
    replay = Replay(rows, case.size, case.batch_size, 0.99, 0, device, case.n_steps, case.exponent)
    samples = rows.samples()
    for _ in range(min(-(-replay.ring.slots // case.num_steps), 4096)):
        replay.add(samples)
    bytes_a_transition = replay_bytes(rows, case.size, case.n_steps, case.exponent) / (replay.ring.slots * rows.num_samples)
    print(f"{bytes_a_transition:.1f} bytes a transition, {int(replay.filled):,} transitions")
    return replay, samples


def microseconds(call: Callable[[], object], device: str) -> float:
    """Return the median time of a call over several rounds."""
    times = []
    for _ in range(ROUNDS):
        _wait(device)
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        _wait(device)
        times.append((time.perf_counter() - start) / CALLS * 1e6)
    return statistics.median(times)


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def captured(call: Callable[[], object]) -> Callable[[], object]:
    """Return the replay of a graph of a call."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def bandwidth(device: str) -> float:
    """Return the bytes that a copy reads and writes in a microsecond."""
    source = torch.ones(1 << 26, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / microseconds(lambda: target.copy_(source), device)


def tensors(value: object) -> list[Tensor]:
    """Return the tensors of nested tuples and dicts."""
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return [tensor for part in parts for tensor in tensors(part)]


def measure(case: Case, device: str, of_copy: float) -> None:
    """Print the times of a case."""
    replay, samples = filled(case, device)
    beta = () if case.exponent is None else (torch.tensor(0.4, device=device),)
    batch = replay.sample(*beta)
    error = torch.rand(case.batch_size, device=device)
    read = sum(x[:1].numel() * x.element_size() for name, x in replay.ring.arrays.items() if not name.startswith("final_"))
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "add": (lambda: replay.add(samples), 2 * read * case.num_steps),
        "sample": (lambda: replay.sample(*beta), 2 * bytes_of(tensors(batch))),
    }
    if case.exponent is not None:
        calls["set_priorities"] = (lambda: replay.set_priorities(batch, error), 12 * case.batch_size)
    for name, (call, moved) in calls.items():
        text = f"  {name:15s} {microseconds(call, device):9.1f} us"
        if device.startswith("cuda"):
            taken = microseconds(captured(call), device)
            text += f", in a graph {taken:8.1f} us, {moved / 1e6:7.2f} MB, {100 * moved / of_copy / taken:4.1f} % of a copy"
        print(text)


def main() -> None:
    """Measure the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    of_copy = bandwidth(options.device)
    print(f"{options.device}: a copy moves {of_copy / 1e3:,.0f} GB/s")
    for name in options.case:
        print(name, end=": ")
        measure(CASES[name], options.device, of_copy)


if __name__ == "__main__":
    main()
