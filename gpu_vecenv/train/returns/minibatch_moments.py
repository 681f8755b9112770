"""Mean and deviation of numbers in each minibatch, by one kernel: ``kernels/returns/minibatch_moments.cu``.

Results have the same bits on every device and for any number of threads. A CUDA graph can record a call if another call was made
before.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import MINIBATCH_MOMENTS
from gpu_vecenv.train.processes.group import Processes


def minibatch_moments(
    values: Tensor, shuffled: Tensor, counts: Tensor | None = None, processes: Processes | None = None
) -> Tensor:
    """Return, for each minibatch, the mean of its numbers and the factor that standardises them, float32 (..., 2).

    The factor is ``1 / (deviation + 1e-8)``. Numbers of NaN give NaN.

    Args:
        values: float32 (S,), of any stride, those of all samples.
        shuffled: int32 (..., b), contiguous: the samples of each minibatch, -1 for places that are left over.
        counts: bool (S,), contiguous, False for samples to leave out; None: all count.
        processes: processes that have the parts of minibatches; None: this one alone.
    """
    result = torch.empty((*shuffled.shape[:-1], 2), dtype=torch.float32, device=shuffled.device)
    call = Call(
        MINIBATCH_MOMENTS, shuffled.device, stride=values.stride(0), places=shuffled.shape[-1],
        numbers=values, samples=shuffled, counts=counts
    )
    call.args.minibatch_moments = result.data_ptr()
    call.launch("gv_minibatch_moments", result.numel() // 2, shuffled.numel())
    return result if processes is None else _of_all(result, shuffled, counts, processes)


def _of_all(of_process: Tensor, shuffled: Tensor, counts: Tensor | None, processes: Processes) -> Tensor:
    """Return the results for the minibatches of all processes; ``of_process`` are those of the parts of this one."""
    used = shuffled >= 0
    if counts is not None:
        used &= counts[shuffled.clamp(min=0).long()]
    mean, factor = of_process.double().unbind(-1)
    size = used.sum(-1).double()
    # A part without a sample has the factor 1e8, so its deviation is 0.
    each = processes.gathered(torch.stack((size, mean, (1.0 / factor - 1e-8).square())))
    sizes, means, variances = each.unbind(1)
    total = sizes.sum(0).clamp(min=1)
    of_all = (sizes * means).sum(0) / total
    variance = (sizes * (variances + (means - of_all).square())).sum(0) / total
    return torch.stack((of_all, 1.0 / (variance.sqrt() + 1e-8)), -1).float()
