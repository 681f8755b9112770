"""Settings of torch for a block of code: precision of matrix products, number of CPU threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from gpu_vecenv.train.config import Precision


@contextlib.contextmanager
def in_precision(precision: Precision, device: str) -> Iterator[None]:
    """Compute matrix products and convolutions in a precision; weights, sums and all else stay float32.

    Args:
        precision: see ``TrainConfig.precision``.
        device: device of the run.
    """
    if precision == "float32":
        yield
    elif precision == "tf32":
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
    else:
        # Without the cache, because weights change inside the block, and a captured graph must convert them in each replay.
        with torch.autocast(torch.device(device).type, getattr(torch, precision), cache_enabled=False):
            yield


@contextlib.contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Set torch's number of CPU threads, a setting of the whole process, and restore it after the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
