"""Timing shared by the benchmark scripts: medians over interleaved rounds, and what they were measured on."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def synchronise(device: str) -> None:
    """Wait for a CUDA device; nothing on the CPU."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize(device)


def seconds_per_call(call: Callable[[], None], device: str, target: float = 0.1) -> float:
    """Wall-clock seconds of one call, over as many back-to-back calls as fill ``target`` seconds."""
    synchronise(device)
    start = time.perf_counter()
    call()
    synchronise(device)
    repeats = max(1, min(2000, int(target / max(time.perf_counter() - start, 1e-6))))
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronise(device)
    return (time.perf_counter() - start) / repeats


def interleaved(calls: dict[str, Callable[[], None]], device: str, rounds: int = 7) -> dict[str, dict[str, float]]:
    """Median, lowest and highest seconds of each call, taking turns, so that a slow phase of the machine hits all alike."""
    for call in calls.values():
        for _ in range(3):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds_per_call(call, device))
    return {
        name: {"median_s": statistics.median(taken), "min_s": min(taken), "max_s": max(taken)} for name, taken in times.items()
    }


def machine(device: str) -> dict[str, Any]:
    """Device, versions and commit of this run."""
    import gymnasium
    import numpy
    import torch

    import gpu_vecenv

    facts: dict[str, Any] = {
        "device": device,
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "torch": torch.__version__,
        "gymnasium": gymnasium.__version__,
        "gpu_vecenv": gpu_vecenv.__version__,
        "commit": os.environ.get("GPU_VECENV_COMMIT") or _commit(),
        "date": time.strftime("%Y-%m-%d"),
    }
    if device != "cpu":
        import cupy

        facts |= {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda, "cupy": cupy.__version__}
        facts["driver"] = _first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    return facts


def write_results(path: Path, name: str, device: str, rows: list[dict[str, Any]]) -> None:
    """One JSON file: how it was made, on what, and the rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = {"benchmark": name, "command": f"python {sys.argv[0]} --device {device}", "machine": machine(device), "rows": rows}
    path.write_text(json.dumps(made, indent=1) + "\n")


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _commit() -> str:
    return _first_line(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"])


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0].strip() or "unknown"
