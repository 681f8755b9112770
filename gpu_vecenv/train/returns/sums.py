"""Sums whose order of additions depends on shapes alone."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 1024
"""Columns of partial sums."""


def fixed_sum(x: Tensor) -> Tensor:
    """Sum over axis 0 in float64, with the same bits for any number of CPU threads.

    torch divides a long sum among threads only if it has a single result, so a first sum leaves BLOCK partial results.

    Args:
        x: (rows, F).

    Returns:
        float64 (F,).
    """
    rows, width = x.shape
    whole = rows // BLOCK * BLOCK
    partial = x[:whole].view(rows // BLOCK, BLOCK, width).sum(0, dtype=torch.float64)
    return partial.sum(0) + x[whole:].sum(0, dtype=torch.float64)
