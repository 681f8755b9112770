"""Counts of a step: launches, operations, allocations, host syncs and memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from gpu_vecenv.backend.private import each_operation

STEPS = 16
"""Fewest steps to count over."""


class _Operations:
    """Counts torch's operations: those that allocate, and those that compute; views are not counted."""

    def __init__(self) -> None:
        self.allocations = self.computations = 0

    def run(self, operation: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Count an operation and run it."""
        if operation.overloadpacket in (torch.ops.aten.empty, torch.ops.aten.empty_strided, torch.ops.aten.empty_like):
            self.allocations += 1
        elif not operation.is_view:
            self.computations += 1
        return operation(*arguments, **keywords)


def count(env: Any, call: Callable[[], object], steps: int, device: str) -> dict[str, float | None]:
    """Count what ``call`` does, per step; each call makes ``steps`` steps. The caller makes one call before, as a warm-up.

    Operations of a backward pass are not counted, because torch runs them in other threads on a GPU.

    Returns:
        ``kernel_launches`` of the env's back end, ``torch_operations`` (about one launch each), ``allocations``, and on CUDA
        ``host_syncs``: operations that made the host wait for the device.
    """
    calls = max(1, STEPS // steps)
    operations = _Operations()
    watched = each_operation(operations.run)
    with _launches(env) as launched, _new_arrays(env) as new_arrays, _host_syncs(device) as syncs, watched:
        for _ in range(calls):
            call()
    total_steps = calls * steps
    return {
        "kernel_launches": len(launched) / total_steps,
        "torch_operations": operations.computations / total_steps,
        "allocations": (operations.allocations + sum(new_arrays)) / total_steps,
        "host_syncs": None if device == "cpu" else len(syncs) / total_steps,
    }


@contextmanager
def peak_memory(device: str) -> Iterator[dict[str, int | None]]:
    """Yield a dict; after the block ``peak_bytes`` is torch's peak memory on a CUDA device, less the memory before the block."""
    peak: dict[str, int | None] = {"peak_bytes": None}
    if device == "cpu":
        yield peak
        return
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    yield peak
    torch.cuda.synchronize(device)
    peak["peak_bytes"] = torch.cuda.max_memory_allocated(device) - before


@contextmanager
def _launches(env: Any) -> Iterator[list[str]]:
    """Yield a list; each kernel that the env's back end launches in the block appends its name."""
    launched: list[str] = []
    backend = env.worlds.backend
    launch = backend.launch

    def counted(name: str, *arguments: Any) -> None:
        launched.append(name)
        launch(name, *arguments)

    with patch.object(backend, "launch", counted):
        yield launched


@contextmanager
def _new_arrays(env: Any) -> Iterator[list[int]]:
    """Yield a list; each allocation of outputs by the env appends the number of arrays. torch's dispatcher does not see them."""
    counts: list[int] = []
    outputs = env.worlds.outputs
    allocate = outputs.allocate

    def counted() -> Any:
        arrays = allocate()
        counts.append(len(arrays))
        return arrays

    with patch.object(outputs, "allocate", counted):
        yield counts


@contextmanager
def _host_syncs(device: str) -> Iterator[list[Any]]:
    """Yield a list; after the block it holds torch's warnings about operations for which the host waited."""
    if device == "cpu":
        yield []
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        syncs: list[Any] = []
        try:
            yield syncs
        finally:
            torch.cuda.set_sync_debug_mode(before)
            syncs += [w for w in caught if "synchronizing CUDA" in str(w.message)]
