"""Means of the metrics of episodes: numbers that an env's kernels record, such as the temperature at the end."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def mean_metrics(metrics: Tensor, ended: Tensor) -> Tensor:
    """Return the mean of each metric over the episodes that ended. No kernel waits for the host, so a CUDA graph can record it.

    Args:
        metrics: float32 (M, T, N), valid where an episode ended; NaN for an episode in which nothing was recorded.
        ended: bool (T, N), the episode of the world ended in the step.

    Returns:
        float32 (M,); NaN if no episode with a record ended.
    """
    return torch.where(ended, metrics, math.nan).flatten(1).nanmean(1, dtype=torch.float64).float()
