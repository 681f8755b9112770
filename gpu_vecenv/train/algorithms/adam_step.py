"""A step of Adam or RAdam for a list of parameters, by the kernels of ``kernels/learner/adam_step.cu``.

A CUDA graph can record a step if another one was taken before.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import ADAM_STEP, MAX_ADAM_PARTS

TILE = ADAM_STEP.macros["TILE"]


class AdamStep:
    """Decides on a step by the norm of the gradient, counts it, and takes it. Addresses of all but gradients must not change."""

    def __init__(
        self, weights: Sequence[Tensor], m: Sequence[Tensor], v: Sequence[Tensor], steps: Sequence[Tensor], rate: Tensor,
        max_norm: float, eps: float, factors: Tensor | None = None,
    ):  # fmt: skip
        """List the parameters.

        Args:
            weights: parameters that ``takes()`` allows.
            m: first moments, as the parameters.
            v: second moments.
            steps: float32 () of each parameter, its steps, which ``decide()`` counts.
            rate: float32 (), learning rate.
            max_norm: longer gradients are scaled down to this norm.
            eps: number added to the root of the second moment.
            factors: float32 (n, 2), see ``MaskedRAdam``; None: those of Adam.
        """
        device, tiles = rate.device, 0
        self._arrays = (weights, m, v, steps)  # their memory stays
        self._call = Call(ADAM_STEP, device, rate=rate, max_norm=max_norm, eps=eps, num_parts=len(weights))
        if factors is not None:
            self._call.set(factors=factors, last_factor=len(factors) - 1)
        for part, *arrays in zip(self._call.args.parts, *self._arrays, strict=False):
            part.weight, part.m, part.v, part.step = (x.data_ptr() for x in arrays)
            part.count = arrays[0].numel()
            tiles += -(-part.count // TILE)
            part.end_tile = tiles
        self._work = sum(x.numel() for x in weights)
        squares, divisor = (torch.empty(n, dtype=torch.float32, device=device) for n in (tiles, 1))
        self._call.set(tiles=tiles, squares=squares, divisor=divisor)

    @staticmethod
    def takes(parameters: Sequence[Tensor]) -> bool:
        """Return True if a step can have these parameters."""
        return len(parameters) <= MAX_ADAM_PARTS and all(x.dtype == torch.float32 and x.is_contiguous() for x in parameters)

    def decide(self, gradients: Sequence[Tensor], mask: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """Return the norm of the gradient before it is clipped, float32 (), and bool (): the step is taken.

        Args:
            gradients: float32, of each parameter, times ``scale``.
            mask: bool (), the step is wanted.
            scale: their factor.
        """
        gradients = [x.contiguous() for x in gradients]
        for part, gradient in zip(self._call.args.parts, gradients, strict=False):
            part.gradient = gradient.data_ptr()
        self._gradients = gradients  # until the step
        norm, taken = (torch.empty((), dtype=dtype, device=mask.device) for dtype in (torch.float32, torch.bool))
        self._call.set(mask=mask, scale=scale, norm=norm, taken=taken)
        self._call.launch("gv_square_gradient", self._call.args.tiles, self._work)
        self._call.launch("gv_decide_step", 1)
        return norm, taken

    def take(self) -> None:
        """Take the step, if it is taken."""
        self._call.launch("gv_take_step", self._call.args.tiles, self._work)
        self._gradients = []
