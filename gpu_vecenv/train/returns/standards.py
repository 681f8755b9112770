"""Mean and deviation of numbers in each minibatch, by one kernel: ``kernels/returns/standards.cu``.

Results have the same bits on every device and for any number of threads. A CUDA graph can record a call if another call was made
before.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import STANDARDS

SMALL = 1 << 14
"""Below this many samples a second CPU thread saves less time than it takes to wake it."""


def standards(numbers: Tensor, dealt: Tensor, counts: Tensor | None = None) -> Tensor:
    """Return, for each minibatch, the mean of its numbers and the factor that standardises them, float32 (..., 2).

    The factor is ``1 / (deviation + 1e-8)``. Numbers of NaN give NaN.

    Args:
        numbers: float32 (S,), of any stride, those of all samples.
        dealt: int32 (..., b), contiguous: the samples of each minibatch, -1 for places that are left over.
        counts: bool (S,), contiguous, False for samples to leave out; None: all count.
    """
    found = torch.empty((*dealt.shape[:-1], 2), dtype=torch.float32, device=dealt.device)
    minibatches = found.numel() // 2
    args = _Args(num_worlds=minibatches, num_agents=1, stride=numbers.stride(0), places=dealt.shape[-1])
    args.numbers, args.samples, args.standards = (array.data_ptr() for array in (numbers, dealt, found))
    args.counts = None if counts is None else counts.data_ptr()
    if minibatches:
        launches(STANDARDS, dealt.device).launch("gv_standards", args, minibatches, dealt.numel() < SMALL)
    return found


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/returns/standards.cu``, which asserts its size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("numbers", "samples", "counts", "standards", "invalid_actions")),
        ("stride", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents", "places", "unused")),
    )  # fmt: skip
