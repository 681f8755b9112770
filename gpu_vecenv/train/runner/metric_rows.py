"""Rows of metrics in memory of the host, which the device writes in turn: ``kernels/learner/publish.cu``."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import PUBLISH


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
        self._row = torch.zeros(1, dtype=torch.int32, device=device)
        self._args = _Args(num_worlds=1, num_agents=1, count=count, num_rows=num_rows)
        self._args.rows, self._args.row = self.rows.data_ptr(), self._row.data_ptr()

    def publish(self, metrics: Tensor) -> None:
        """Queue the copy of metrics, float32 (count,), contiguous, to the next row."""
        self._args.metrics = metrics.data_ptr()
        launches(PUBLISH, metrics.device).launch("gv_publish", self._args, 1, True)


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/learner/publish.cu``, which asserts its size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("metrics", "rows", "row", "invalid_actions")),
        *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents", "count", "num_rows")),
    )
