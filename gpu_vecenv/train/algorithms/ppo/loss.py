"""PPO's loss of one minibatch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.private import run_backward
from gpu_vecenv.train.algorithms.masked_adam import gradient_scale
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Evaluated, Inputs

RUN_BACKWARD = run_backward()


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
    choice: Tensor | None = None
    """bool (b,), True for valid transitions in which the agent had a choice; None if it always had one. Others have no weight in
    the terms of the policy; their values count."""
    totals: Tensor | None = None
    """float32, transitions of all processes that count, () or in each of ``TERMS`` (5,), as ``counted`` is; None: this process
    has all."""

    @property
    def counted(self) -> Tensor:
        """Transitions that count in each of ``TERMS``, bool (5, b); ``valid`` if they are the same in all terms."""
        if self.choice is None:
            return self.valid
        return torch.stack((self.choice, self.valid, *[self.choice] * 3))


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
"""Names of the terms that ``PPOLoss`` returns."""


class PPOLoss:
    """PPO's loss in one update, with what its minibatches have in common.

    Source: Schulman et al. 2017 (arXiv 1707.06347), equation 7, with the value loss and the entropy bonus of equation 9.
    """

    def __init__(self, config: PPOConfig, entropy_coef: Tensor, clip_coef: Tensor):
        """Prepare an update.

        Args:
            config: hyperparameters.
            entropy_coef: weight of the entropy bonus, float32 ().
            clip_coef: half-width of the range that the ratio is clipped to, float32 ().
        """
        self.clip_value, self.clip_coef = config.clip_value, clip_coef
        self.low, self.high = 1.0 - clip_coef, 1.0 + clip_coef
        self.zero = torch.zeros_like(clip_coef)
        # The loss is policy_loss + value_coef value_loss - entropy_coef entropy.
        self.weights = torch.stack((self.zero + 1.0, self.zero + config.value_coef, -entropy_coef))

    def backward(self, evaluated: Evaluated, batch: Minibatch, name: str) -> Tensor:
        """Add the gradients of a minibatch's loss, times ``gradient_scale()``, to those of the policy's weights.

        The loss is elementwise in the evaluation, so its derivatives are written out. Autograd would take three times as many
        operations for them.

        Args:
            evaluated: the policy's evaluation of the minibatch.
            batch: the minibatch.
            name: name of the policy, for messages.

        Raises:
            ConfigError: the evaluation has no gradient.

        Returns:
            ``TERMS``, float32 (5,), 0 where no transition counts; the part of this process in them. ``kl`` is Schulman's estimate
            k3, ``clip_fraction`` the share of ratios outside the clip range.
        """
        with torch.no_grad():
            gradients, terms = self._gradients(evaluated, batch)
        pairs = [(x, gradient) for x, gradient in zip(evaluated, gradients, strict=True) if x.requires_grad]
        if not pairs:
            raise ConfigError(f"network of policy {name!r}: expected results with gradients, got none")
        RUN_BACKWARD(tuple(x for x, _ in pairs), tuple(gradient for _, gradient in pairs))
        return terms

    def _gradients(self, evaluated: Evaluated, batch: Minibatch) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        """Return the scaled derivatives of the loss by log-probability, entropy and value, each float32 (b,), and the terms."""
        log_prob, entropy, value = evaluated
        counted, zero = batch.counted, self.zero
        by_term = batch.choice is not None
        totals = (counted.flatten(1).sum(1) if by_term else counted.sum()) if batch.totals is None else batch.totals
        count = totals.clamp(min=1)
        scale = gradient_scale(counted.device) / count
        weights = (self.weights * (scale[:3] if by_term else scale)).view(-1, *[1] * batch.valid.dim())
        of_policy, of_value, of_entropy = torch.where(counted[:3] if by_term else counted, weights, zero).unbind()

        log_ratio = log_prob - batch.log_prob
        ratio = log_ratio.exp()  # r = pi(a|s) / pi_old(a|s)
        clipped_ratio = torch.clamp(ratio, self.low, self.high)
        kl = (ratio - 1.0) - log_ratio
        # -L_CLIP = max(-r A, -clip(r, 1 - eps, 1 + eps) A); a clipped ratio has no derivative, and that of r by log pi is r
        cost = -batch.advantage
        free, clipped = ratio * cost, clipped_ratio * cost
        is_free = free >= clipped
        surrogate = torch.where(is_free, free, clipped)
        by_log_prob = torch.where(is_free, of_policy, zero) * cost * ratio

        off = value - batch.target
        error = off.square()
        if self.clip_value:
            # Inside the range this is the value itself. Its change, added again, may be rounded to a larger error.
            near = torch.clamp(value, batch.value - self.clip_coef, batch.value + self.clip_coef)
            clipped_error = (near - batch.target).square()
            is_clipped = clipped_error > error
            error, of_value = torch.where(is_clipped, clipped_error, error), torch.where(is_clipped, zero, of_value)
        # All means at once, as an operation on one takes as long.
        terms = torch.where(counted, torch.stack((surrogate, 0.5 * error, entropy, kl, clipped_ratio != ratio)), zero)
        return (by_log_prob, of_entropy, of_value * off), terms.flatten(1).sum(1) / count
