"""PPO's loss of one minibatch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.policies.contract import Inputs, Policy


class Minibatch(NamedTuple):
    """b transitions in any order; each array may have a further axis, the agents of a world."""

    inputs: Inputs
    """Inputs of the policy."""
    action: Tensor
    """(b,) or (b, k)."""
    log_prob: Tensor
    """float32 (b,), of the action when it was taken."""
    value: Tensor
    """float32 (b,), before the update."""
    advantage: Tensor
    """float32 (b,)."""
    target: Tensor
    """float32 (b,), the value to learn."""
    valid: Tensor
    """bool (b,), False for transitions to ignore; their numbers are finite."""


def masked_mean(x: Tensor, valid: Tensor) -> Tensor:
    """Return the mean of ``x`` over entries where ``valid``; 0 if there are none."""
    return torch.where(valid, x, 0.0).sum() / valid.sum().clamp(min=1)


def masked_variance(x: Tensor, valid: Tensor) -> Tensor:
    """Return the variance of ``x`` over entries where ``valid``; 0 if there are none."""
    return masked_mean((x - masked_mean(x, valid)).square(), valid)


def standardized(x: Tensor, valid: Tensor) -> Tensor:
    """Return ``x`` with mean 0 and deviation 1 over entries where ``valid``."""
    return (x - masked_mean(x, valid)) / (masked_variance(x, valid).sqrt() + 1e-8)


TERMS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
"""Names of the terms that ``ppo_loss()`` returns."""


def ppo_loss(
    policy: Policy, batch: Minibatch, config: PPOConfig, entropy_coef: Tensor | float, clip_coef: Tensor | float
) -> tuple[Tensor, Tensor]:
    """Return the loss to minimise, and its terms.

    Source: Schulman et al. 2017 (arXiv 1707.06347), equation 7, with the value loss and the entropy bonus of equation 9.

    Returns:
        Loss, float32 (), and the detached ``TERMS``, float32 (5,). ``kl`` is Schulman's estimate k3, ``clip_fraction`` the share
        of ratios outside the clip range.
    """
    log_prob, entropy, value = policy.evaluate(batch.inputs, batch.action)
    log_ratio = log_prob - batch.log_prob
    ratio = log_ratio.exp()  # r = pi(a|s) / pi_old(a|s)
    error = (value - batch.target).square()
    # Clipped numbers have no gradient. Leaving them out of the graph gives the same gradient in half the operations.
    with torch.no_grad():
        held = torch.clamp(ratio, 1.0 - clip_coef, 1.0 + clip_coef) * batch.advantage  # type: ignore[arg-type]
        near = batch.value + torch.clamp(value - batch.value, -clip_coef, clip_coef)  # type: ignore[arg-type]
        held_error = (near - batch.target).square()
        change = ratio - 1.0
        kl, outside = change - log_ratio, change.abs() > clip_coef
    free = ratio * batch.advantage
    surrogate = torch.where(free <= held, free, held)  # L_CLIP = E[min(r A, clip(r, 1 - eps, 1 + eps) A)]
    if config.clip_value:
        error = torch.where(held_error > error, held_error, error)
    # All means at once, as an operation on one takes as long.
    terms = torch.where(batch.valid, torch.stack((-surrogate, 0.5 * error, entropy, kl, outside)), 0.0)
    terms = terms.flatten(1).sum(1) / batch.valid.sum().clamp(min=1)
    policy_loss, value_loss, mean_entropy, *_ = terms.unbind()
    loss = policy_loss + config.value_coef * value_loss - entropy_coef * mean_entropy
    return loss, terms.detach()
