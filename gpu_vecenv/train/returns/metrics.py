"""Means of the metrics of episodes, by kernels with the same bits on every device and for any number of threads.

The kernels are in ``kernels/returns/metrics.cu``. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import METRICS

TILE = 4096
"""Worlds in all steps, of a team, ``GV_TILE`` of the kernels."""

SMALL = 1 << 14
"""Below this many places a second CPU thread saves less time than it takes to wake it."""


def mean_metrics(metrics: Tensor, terminated: Tensor, truncated: Tensor) -> Tensor:
    """Return the mean of each metric over the episodes that ended.

    Args:
        metrics: float32 (M, T, N) of any strides, valid where an episode ended; NaN for an episode without a record.
        terminated: bool (T, N) of any strides, the episode of the world ended in the step by the rules.
        truncated: bool (T, N) of the same strides, it ended in the step at the time limit.

    Returns:
        float32 (M,); NaN for a metric without a record.
    """
    count, steps, worlds = metrics.shape
    size, device = steps * worlds, metrics.device
    tiles = -(-size // TILE)
    totals = torch.empty(count, tiles, 2, dtype=torch.float64, device=device)
    means = torch.empty(count, dtype=torch.float32, device=device)
    args = _Args(size=size, num_worlds=count * tiles, num_agents=1, worlds=worlds, tiles=tiles)
    args.metric, args.metric_step, args.metric_world = metrics.stride()
    args.flag_step, args.flag_world = terminated.stride()
    for name, array in (
        ("metrics", metrics), ("terminated", terminated), ("truncated", truncated), ("totals", totals), ("means", means),
    ):  # fmt: skip
        setattr(args, name, array.data_ptr())
    program = launches(METRICS, device)
    program.launch("gv_metric_sums", args, count * tiles, count * size < SMALL)
    args.num_worlds = count
    program.launch("gv_metric_means", args, count, True)
    return means


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/returns/metrics.cu``, which asserts its size."""

    _fields_ = (
        ("metrics", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("metric", "metric_step", "metric_world")),
        *((name, ctypes.c_void_p) for name in ("terminated", "truncated")),
        *((name, ctypes.c_int64) for name in ("flag_step", "flag_world")),
        *((name, ctypes.c_void_p) for name in ("totals", "means", "invalid_actions")),
        ("size", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents", "worlds", "tiles")),
    )  # fmt: skip
