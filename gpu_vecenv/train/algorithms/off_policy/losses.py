"""Losses of critics with one output and of the policy that climbs them, by the kernels of ``kernels/learner/critics.cu``.

A kernel computes a loss and its derivatives by the values, so that autograd begins there. A CUDA graph can record a call if
another call was made before.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import CRITICS


class Loss(NamedTuple):
    """A loss with its derivatives, which are times a scale."""

    loss: Tensor
    """float32 ()."""
    mean: Tensor
    """float32 (): of critics the mean value, of the policy the mean entropy, or 0 without log-densities."""
    slopes: Tensor
    """float32, by the values, of their shape."""
    log_prob_slopes: Tensor | None = None
    """float32 (R,), by the log-densities."""


def critic_loss(values: Tensor, target: Tensor, weight: Tensor, factor: float, scale: float = 1.0) -> Loss:
    """Return ``factor`` times the weighted sum of squared errors.

    Args:
        values: float32 (n, R, 1).
        target: float32 (R,).
        weight: float32 (R,).
        factor: factor of the loss.
        scale: factor of the derivatives.
    """
    values = values.detach()
    results, slopes = values.new_empty(2), torch.empty_like(values)
    call = Call(
        CRITICS, values.device, count=len(values), rows=values.shape[1], values=values, target=target, share=weight,
        factor=factor, scale=scale, slopes=slopes, results=results,
    )  # fmt: skip
    call.launch("gv_critic_loss", 1)
    return Loss(results[0], results[1], slopes)


def actor_loss(
    values: Tensor, share: Tensor, scale: float = 1.0, alpha: Tensor | None = None, log_prob: Tensor | None = None
) -> Loss:
    """Return the mean of alpha times the log-density minus the smallest value; without a log-density of minus the first value.

    Args:
        values: float32 (n, R, 1).
        share: float32 (R,), weights.
        scale: factor of the derivatives.
        alpha: float32 (), temperature.
        log_prob: float32 (R,).
    """
    values = values.detach()
    results, slopes = values.new_empty(2), torch.empty_like(values)
    log_prob_slopes = None if log_prob is None else torch.empty_like(log_prob.detach())
    call = Call(
        CRITICS, values.device, count=len(values), rows=values.shape[1], values=values, share=share, scale=scale, alpha=alpha,
        log_prob=None if log_prob is None else log_prob.detach(), slopes=slopes, log_prob_slopes=log_prob_slopes, results=results,
    )  # fmt: skip
    call.launch("gv_actor_loss", 1)
    return Loss(results[0], results[1], slopes, log_prob_slopes)
