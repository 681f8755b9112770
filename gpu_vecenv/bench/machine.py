"""Facts about the machine of a run: device, clocks, versions, commit."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

CLOCKS = "clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,temperature.gpu,power.draw"
"""Fields that nvidia-smi prints before and after a run."""


def machine(device: str) -> dict[str, Any]:
    """Return device, versions and commit of this run."""
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
        "commit": os.environ.get("GPU_VECENV_COMMIT") or commit_of(Path(__file__).parent),
        "date": time.strftime("%Y-%m-%d"),
    }
    if device != "cpu":
        import cupy

        index = torch.device(device).index or 0
        facts |= {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda, "cupy": cupy.__version__}
        facts["gpu_memory_bytes"] = torch.cuda.get_device_properties(index).total_memory
        facts["l2_bytes"] = torch.cuda.get_device_properties(index).L2_cache_size
        facts["driver"] = _first_line(["nvidia-smi", f"--id={index}", "--query-gpu=driver_version", "--format=csv,noheader"])
    return facts


def clocks(device: str) -> dict[str, str]:
    """Return the clocks (MHz), temperature and power draw of a GPU, as nvidia-smi prints them; empty for the CPU."""
    if device == "cpu":
        return {}
    index = device.partition(":")[2] or "0"
    line = _first_line(["nvidia-smi", f"--id={index}", f"--query-gpu={CLOCKS}", "--format=csv,noheader"])
    return dict(zip(CLOCKS.split(","), line.split(", "), strict=False))


def installed(distribution: str) -> str | None:
    """Return the version of a distribution, None if it is missing."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout, ``unknown`` if the folder is none."""
    return _first_line(["git", "-C", str(folder), "describe", "--always", "--dirty"])


def contents_of(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of the Python files in a folder; it identifies a source without a version."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.partition("\n")[0].strip() or "unknown"


def room_for(max_bytes: int, device: str) -> int:
    """Return the bytes that results may take: ``max_bytes``, and on a GPU at most a third of its free memory."""
    import torch

    return max_bytes if device == "cpu" else min(max_bytes, torch.cuda.mem_get_info(device)[0] // 3)
