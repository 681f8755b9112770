"""What a step asks of the host and the device beside time: launches, operations, allocations, waits, memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

STEPS = 16


class _Operations(TorchDispatchMode):
    """Counts torch's operations: those that allocate, and those that compute; views are free."""

    def __init__(self) -> None:
        super().__init__()
        self.allocations = self.computations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.empty, torch.ops.aten.empty_strided, torch.ops.aten.empty_like):
            self.allocations += 1
        elif not func.is_view:
            self.computations += 1
        return func(*args, **(kwargs or {}))


def count(env: Any, call: Callable[[], object], steps: int, device: str) -> dict[str, float | None]:
    """Counts per step of a call that makes ``steps`` steps of an env, after a call that warmed it up.

    Operations of a backward pass are not seen: on a GPU torch runs them in threads of its own.

    Returns:
        ``kernel_launches`` by the env's back end, ``torch_operations`` (each a launch or so), ``allocations``, and on CUDA
        ``host_syncs``: operations that made the host wait for the device.
    """
    calls = max(1, STEPS // steps)
    with _launches(env) as launched, _fresh(env) as fresh, _syncs(device) as waited, _Operations() as operations:
        for _ in range(calls):
            call()
    made = calls * steps
    return {
        "kernel_launches": len(launched) / made,
        "torch_operations": operations.computations / made,
        "allocations": (operations.allocations + sum(fresh)) / made,
        "host_syncs": None if device == "cpu" else len(waited) / made,
    }


@contextmanager
def peak_memory(device: str) -> Iterator[dict[str, int | None]]:
    """Bytes that torch's allocator held at most on a CUDA device meanwhile, beyond what it held before."""
    held: dict[str, int | None] = {"peak_bytes": None}
    if device == "cpu":
        yield held
        return
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    yield held
    torch.cuda.synchronize(device)
    held["peak_bytes"] = torch.cuda.max_memory_allocated(device) - before


@contextmanager
def _launches(env: Any) -> Iterator[list[str]]:
    """Names of the kernels that an env's back end launches meanwhile."""
    launched: list[str] = []
    launch = env._backend.launch

    def counted(name: str, *rest: Any) -> None:
        launched.append(name)
        launch(name, *rest)

    with patch.object(env._backend, "launch", counted):
        yield launched


@contextmanager
def _fresh(env: Any) -> Iterator[list[int]]:
    """How many arrays an env makes for its results meanwhile, call by call; torch's dispatcher does not see them."""
    made: list[int] = []
    allocate = env._outputs._allocate

    def counted() -> Any:
        arrays = allocate()
        made.append(len(arrays))
        return arrays

    with patch.object(env._outputs, "_allocate", counted):
        yield made


@contextmanager
def _syncs(device: str) -> Iterator[list[Any]]:
    """Warnings that torch gives where an operation waits for the device."""
    if device == "cpu":
        yield []
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        found: list[Any] = []
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode(before)
            found += [w for w in caught if "synchronizing CUDA" in str(w.message)]
