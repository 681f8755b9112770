"""Rows of metrics in memory of the host, which the device writes in turn: ``kernels/learner/metrics_to_host.cu``."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import METRICS_TO_HOST


class MetricRows:
    """Rows of metrics, the next of which each iteration writes. A CUDA graph can record a call if another call was made before.

    Attributes:
        rows: float32 (num_rows, count) on the host, pinned if the device is a GPU. The row of an iteration is valid from the end
            of its work on the device until ``num_rows`` later ones run.
    """

    def __init__(self, num_rows: int, count: int, device: torch.device) -> None:
        """Make the rows.

        Args:
            num_rows: number of rows.
            count: number of metrics.
            device: where iterations run.
        """
        self.rows = torch.zeros(num_rows, count, pin_memory=device.type == "cuda", dtype=torch.float32, device="cpu")
        row = torch.zeros(1, dtype=torch.int32, device=device)
        self._call = Call(METRICS_TO_HOST, device, count=count, num_rows=num_rows, row=row)
        self._call.args.rows = self.rows.data_ptr()  # not on the device

    def to_host(self, metrics: Tensor) -> None:
        """Queue the copy of metrics, float32 (count,), contiguous, to the next row."""
        self._call.set(metrics=metrics)
        self._call.launch("gv_metrics_to_host", 1)
