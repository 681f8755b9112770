"""Means of the metrics of episodes, by kernels with the same bits on every device and for any number of threads.

The kernels are in ``kernels/returns/metrics.cu``. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import METRICS
from gpu_vecenv.train.processes.group import Processes

TILE = METRICS.macros["TILE"]


def mean_metrics(metrics: Tensor, terminated: Tensor, truncated: Tensor, processes: Processes | None = None) -> Tensor:
    """Return the mean of each metric over the episodes that ended.

    Args:
        metrics: float32 (M, T, N) of any strides, valid where an episode ended; NaN for an episode without a record.
        terminated: bool (T, N) of any strides, the episode of the world ended in the step by the rules.
        truncated: bool (T, N) of the same strides, it ended in the step at the time limit.
        processes: processes whose episodes count, by ``Processes.sum_then()``; None: this one alone.

    Returns:
        float32 (M,); NaN for a metric without a record.
    """
    count, steps, worlds = metrics.shape
    size, device = steps * worlds, metrics.device
    tiles = -(-size // TILE)
    totals = torch.empty(count, tiles, 2, dtype=torch.float64, device=device)
    means = torch.empty(count, dtype=torch.float32, device=device)
    metric, metric_step, metric_world = metrics.stride()
    call = Call(
        METRICS, device, metric=metric, metric_step=metric_step, metric_world=metric_world, flag_step=terminated.stride(0),
        flag_world=terminated.stride(1), size=size, worlds=worlds, tiles=tiles, metrics=metrics, terminated=terminated,
        truncated=truncated,
    )  # fmt: skip
    call.args.totals, call.args.means = totals.data_ptr(), means.data_ptr()
    call.launch("gv_metric_sums", count * tiles, count * size)
    if processes is None:
        call.launch("gv_metric_means", count)
    else:
        processes.sum_then(totals.sum(1), lambda of_all: means.copy_(of_all[:, 0] / of_all[:, 1]))
    return means
