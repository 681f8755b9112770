"""Time of a sum over the processes of a run: by NCCL and directly, inside a CUDA graph and outside; for ``weak_scaling.py``.

A sum stands between two pieces of other work, as it does between the gradient and the step of a minibatch. Its time is that of
the whole sequence less that of the work alone, in one graph. Inside, work and sums are one graph. Outside, each piece of work is
a graph and each sum a call of the host, so a launch of the host is part of its time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from gpu_vecenv.train.processes.group import Processes

NUMBERS = (1, 9_160, 14_284, 182_528, 4_194_304)
"""Numbers of float32 in a sum: one, gradients of CartPole and Tag with layers of 64 units and of Tag with 256, and 16 MiB."""

PIECES, REPLAYS, ROUNDS = 16, 10, 5
"""Sums of a sequence, sequences of a round, and rounds, whose median counts."""

WORK, TIMES = 1 << 22, 8
"""Numbers that a piece of work changes, and how often."""


def microseconds_of_sums(processes: Processes, device: str) -> list[dict[str, Any]]:
    """Return a row for each size, kind of sum and place; all processes call it."""
    if device == "cpu":
        return [
            {"numbers": numbers, "by": processes.backend, "place": "outside", "microseconds": _on_host(processes, numbers)}
            for numbers in NUMBERS
        ]
    rows, direct = [], processes.direct
    torch.cuda.set_device(device)
    work = torch.zeros(WORK, device=device)
    for numbers in NUMBERS:
        x = torch.zeros(numbers, device=device)
        for by in (processes.backend, "direct"):
            if by == "direct" and (direct is None or not direct.takes(x)):
                continue
            processes.direct = direct if by == "direct" else None
            for place, microseconds in _on_gpu(processes, x, work).items():
                rows.append({"numbers": numbers, "by": by, "place": place, "microseconds": microseconds})
    processes.direct = direct
    return rows


def _on_host(processes: Processes, numbers: int) -> float:
    x = torch.zeros(numbers)
    processes.sum(x)
    start = time.perf_counter()
    for _ in range(PIECES):
        processes.sum(x)
    return 1e6 * (time.perf_counter() - start) / PIECES


def _on_gpu(processes: Processes, x: torch.Tensor, work: torch.Tensor) -> dict[str, float]:
    """Return the time of a sum inside a graph and outside."""

    def piece() -> None:
        for _ in range(TIMES):
            work.add_(1.0)

    def pieces() -> None:
        for _ in range(PIECES):
            piece()

    def with_sums(between: Callable[[], object]) -> None:
        for _ in range(PIECES):
            between()
            processes.sum(x)

    one, alone, inside = (_graph(run) for run in (piece, pieces, lambda: with_sums(piece)))
    base = _milliseconds(processes, alone.replay)
    times = {"inside": inside.replay, "outside": lambda: with_sums(one.replay)}
    return {place: 1e3 * (_milliseconds(processes, run) - base) / PIECES for place, run in times.items()}


def _graph(run: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Return a graph of some work, which runs before the capture."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        run()
    return graph


def _milliseconds(processes: Processes, run: Callable[[], object]) -> float:
    """Return the milliseconds of a sequence on the device."""
    found, start = torch.zeros(1, device="cuda"), [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    times = []
    for _ in range(ROUNDS + 1):
        processes.sum(found)  # processes begin together
        start[0].record()
        for _ in range(REPLAYS):
            run()
        start[1].record()
        torch.cuda.synchronize()
        times.append(start[0].elapsed_time(start[1]) / REPLAYS)
    return statistics.median(times[1:])
