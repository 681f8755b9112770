"""Squashed actions with their log-densities and derivatives by the kernels of ``kernels/policy/squash.cu``.

A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import SQUASH

TILE = SQUASH.macros["TILE"]


class Squash(torch.autograd.Function):
    """Actions and log-densities of outputs, with their derivatives."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, noise: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
        """Return float32 (R, k) and (R,).

        Args:
            ctx: what the derivatives need.
            outputs: float32 (R, 2 k), means and logarithms of deviations, which are clamped.
            noise: float32 (R, k), standard normal.
            low: least logarithm.
            high: largest one.
        """
        rows, entries = noise.shape
        action, log_prob = torch.empty_like(noise), noise.new_empty(rows)
        call = Call(
            SQUASH, noise.device, rows=rows, entries=entries, low=low, high=high, outputs=outputs, noise=noise, action=action,
            log_prob=log_prob,
        )  # fmt: skip
        call.launch("gv_squash", -(-rows // TILE), noise.numel())
        ctx.save_for_backward(outputs, noise)
        ctx.bounds = low, high
        return action, log_prob

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_action: Tensor, of_log_prob: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives by the outputs, float32 (R, 2 k)."""
        outputs, noise = ctx.saved_tensors
        (rows, entries), (low, high) = noise.shape, ctx.bounds
        of_outputs = torch.empty_like(outputs)
        call = Call(
            SQUASH, noise.device, rows=rows, entries=entries, low=low, high=high, outputs=outputs, noise=noise,
            of_action=of_action.contiguous(), of_log_prob=of_log_prob.contiguous(), of_outputs=of_outputs,
        )  # fmt: skip
        call.launch("gv_squash_back", -(-rows // TILE), noise.numel())
        return of_outputs, None, None, None


def squash(outputs: Tensor, noise: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Return actions in (-1, 1), float32 (..., k), and their log-densities, float32 (...).

    Args:
        outputs: float32 (..., 2 k).
        noise: float32 (..., k).
        low: least logarithm of a deviation.
        high: largest one.
    """
    flat, drawn = outputs.reshape(-1, outputs.shape[-1]).contiguous(), noise.reshape(-1, noise.shape[-1]).contiguous()
    action, log_prob = Squash.apply(flat, drawn, low, high)
    return action.view(noise.shape), log_prob.view(noise.shape[:-1])
