"""Subjects of ``benchmarks/against_tree.py``, made in a process of the tree that it imports."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch

import gpu_vecenv
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.cli.bench import groups


@functools.cache
def _makers(mode: str, device: str) -> dict[tuple[str, str], Any]:
    """Makers of a mode by name of the case and path."""
    torch.set_num_threads(1)
    if device != "cpu":
        torch.cuda.set_device(device)
    cases = groups(mode, device.partition(":")[0], device, (), ())
    return {(case.name, path): make for case, ways in cases for path, make in ways.items()}


def make(tree: str, mode: str, device: str, case: str, path: str) -> Subject:
    """Make a subject of ``gpu-vecenv bench``.

    Args:
        tree: folder of the tree.
        mode: ``env``, ``inference`` or ``training``.
        device: device of the subject.
        case: name of the case.
        path: name of the way to run it.

    Raises:
        ImportError: this process has imported another tree.
    """
    if not Path(gpu_vecenv.__file__).is_relative_to(tree):
        raise ImportError(f"expected the package of {tree}, got that of {gpu_vecenv.__file__}")
    return _makers(mode, device)[case, path]()
