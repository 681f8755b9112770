"""Action distributions, batched over rows: sampling, log-probability, entropy, optional action masks.

They have no data-dependent branches, so the host does not wait for the device. They draw from an explicit generator, so that a
checkpoint can hold the whole random state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Distribution(Protocol):
    """Distribution of the actions of rows (B,)."""

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw one action for each row."""

    def mode(self) -> Tensor:
        """Return the likeliest action of each row."""

    def log_prob(self, action: Tensor) -> Tensor:
        """Return log-probabilities (log-densities for continuous actions), float32 (B,)."""

    def entropy(self) -> Tensor:
        """Return the entropy in nats, float32 (B,)."""


class Categorical:
    """One of n choices."""

    def __init__(self, logits: Tensor, mask: Tensor | None = None):
        """Normalise the logits.

        Args:
            logits: float32 (B, n), unnormalised log-probabilities.
            mask: bool (B, n), True where a choice is allowed; every row allows at least one. None allows all.
        """
        if mask is not None:
            # The lowest finite number instead of -inf keeps probability times log-probability at 0, not NaN.
            logits = torch.where(mask, logits, torch.finfo(logits.dtype).min)
        self.log_probs = torch.log_softmax(logits, dim=-1)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw int64 (B,) by the exponential race: with E_i from Exp(1), p_i / E_i is the largest with probability p_i."""
        race = torch.empty_like(self.log_probs).exponential_(generator=generator)
        return torch.argmax(self.log_probs - race.log(), dim=-1)

    def mode(self) -> Tensor:
        """Return the likeliest choice, int64 (B,)."""
        return torch.argmax(self.log_probs, dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return log-probabilities, float32 (B,), of integer actions (B,)."""
        return self.log_probs.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy in nats, float32 (B,)."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)


class MultiCategorical:
    """Independent choices, one for each entry of an action."""

    def __init__(
        self, logits: Tensor, sizes: list[int], mask: Tensor | None = None, masked: Sequence[int] | None = None
    ):
        """Split the logits by entry.

        Args:
            logits: float32 (B, n_1 + ... + n_k), those of all entries, one after the other.
            sizes: n_1 ... n_k.
            mask: bool (B, number of choices of the masked entries), True where a choice is allowed. None allows all.
            masked: numbers of the entries that the mask covers, in its order; None if it covers all.
        """
        masks: dict[int, Tensor] = {}
        if mask is not None:
            covered = range(len(sizes)) if masked is None else masked
            masks = dict(zip(covered, mask.split([sizes[entry] for entry in covered], dim=-1), strict=True))
        parts = logits.split(sizes, dim=-1)
        self.entries = [Categorical(part, masks.get(entry)) for entry, part in enumerate(parts)]

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw int64 (B, k)."""
        return torch.stack([entry.sample(generator) for entry in self.entries], dim=-1)

    def mode(self) -> Tensor:
        """Return the likeliest choices, int64 (B, k)."""
        return torch.stack([entry.mode() for entry in self.entries], dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return log-probabilities, float32 (B,), of integer actions (B, k)."""
        logs = [entry.log_prob(a) for entry, a in zip(self.entries, action.unbind(-1), strict=True)]
        return torch.stack(logs).sum(0)

    def entropy(self) -> Tensor:
        """Return the entropy in nats, float32 (B,)."""
        return torch.stack([entry.entropy() for entry in self.entries]).sum(0)


class DiagonalGaussian:
    """Independent normal distributions; the env clips their draws to its bounds."""

    def __init__(self, mean: Tensor, log_std: Tensor):
        """Store the parameters.

        Args:
            mean: float32 (B, k).
            log_std: float32 (k,), natural logarithm of the deviations, the same for every row.
        """
        self.mean = mean
        self.log_std = log_std.expand_as(mean)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw float32 (B, k)."""
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + self.log_std.exp() * noise

    def mode(self) -> Tensor:
        """Return the mean, float32 (B, k)."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Return log-densities, float32 (B,), of actions float32 (B, k)."""
        z = (action - self.mean) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.5 * math.log(2.0 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy in nats, float32 (B,)."""
        return (self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1)
