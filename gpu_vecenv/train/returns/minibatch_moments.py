"""Mean and deviation of numbers in each minibatch, by one kernel: ``kernels/returns/minibatch_moments.cu``.

Results have the same bits on every device and for any number of threads. A CUDA graph can record a call if another call was made
before.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import MINIBATCH_MOMENTS


def minibatch_moments(values: Tensor, shuffled: Tensor, counts: Tensor | None = None) -> Tensor:
    """Return, for each minibatch, the mean of its numbers and the factor that standardises them, float32 (..., 2).

    The factor is ``1 / (deviation + 1e-8)``. Numbers of NaN give NaN.

    Args:
        values: float32 (S,), of any stride, those of all samples.
        shuffled: int32 (..., b), contiguous: the samples of each minibatch, -1 for places that are left over.
        counts: bool (S,), contiguous, False for samples to leave out; None: all count.
    """
    result = torch.empty((*shuffled.shape[:-1], 2), dtype=torch.float32, device=shuffled.device)
    call = Call(
        MINIBATCH_MOMENTS, shuffled.device, stride=values.stride(0), places=shuffled.shape[-1],
        numbers=values, samples=shuffled, counts=counts
    )
    call.args.minibatch_moments = result.data_ptr()
    call.launch("gv_minibatch_moments", result.numel() // 2, shuffled.numel())
    return result
