"""Action distributions, batched over rows, with gradients: log-probability, entropy, optional action masks.

They have no data-dependent branches, so the host does not wait for the device. Their values are those of ``draw.py``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Distribution(Protocol):
    """Distribution of the actions of rows (...)."""

    def mode(self) -> Tensor:
        """Return the likeliest action of each row."""

    def log_prob(self, action: Tensor) -> Tensor:
        """Return log-probabilities (log-densities for continuous actions), float32 (...)."""

    def entropy(self) -> Tensor:
        """Return the entropy in nats, float32 (...)."""


class Categorical:
    """One of n choices."""

    def __init__(self, logits: Tensor, mask: Tensor | None = None):
        """Normalise the logits.

        Args:
            logits: float32 (..., n), unnormalised log-probabilities.
            mask: bool (..., n), True where a choice is allowed. None allows all. If it allows none, the choice is 0 with
                probability 1, which has no gradient.
        """
        if mask is not None:
            # The lowest finite number instead of -inf keeps probability times log-probability at 0, not NaN.
            logits = torch.where(mask, logits, torch.finfo(logits.dtype).min)
        self.log_probs = torch.log_softmax(logits, dim=-1)
        if mask is not None:
            self.log_probs = torch.where(mask.any(-1, keepdim=True), self.log_probs, 0.0)

    def mode(self) -> Tensor:
        """Return the likeliest choice, int64 (...)."""
        return torch.argmax(self.log_probs, dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return log-probabilities, float32 (...), of integer actions (...)."""
        return self.log_probs.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy in nats, float32 (...)."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)


class _Group(NamedTuple):
    """Entries of one size that are computed as one batch. Places are a slice if they are consecutive, else int64 (count,)."""

    size: int
    entries: slice | Tensor
    columns: slice | Tensor
    mask_columns: slice | Tensor | None
    """None if no mask covers these entries."""


class MultiCategorical:
    """Independent choices, one for each entry of an action."""

    def __init__(
        self, logits: Tensor, sizes: Sequence[int], mask: Tensor | None = None, masked: Sequence[int] | None = None
    ):
        """Split the logits into groups of entries of one size.

        Args:
            logits: float32 (..., n_1 + ... + n_k), those of all entries, one after the other.
            sizes: n_1 ... n_k.
            mask: bool (..., number of choices of the masked entries), True where a choice is allowed. None allows all. An entry
                without an allowed choice is 0.
            masked: numbers of the entries that the mask covers, in its order; None if it covers all.
        """
        covered = _covered(sizes, mask, masked)
        self.num_entries = len(sizes)
        self.groups: list[tuple[_Group, Categorical]] = []
        for group in _groups(tuple(sizes), covered, logits.device):
            allowed = None
            if mask is not None and group.mask_columns is not None:
                allowed = _at(mask, group.mask_columns).unflatten(-1, (-1, group.size))
            of_group = _at(logits, group.columns).unflatten(-1, (-1, group.size))
            self.groups.append((group, Categorical(of_group, allowed)))

    def mode(self) -> Tensor:
        """Return the likeliest choices, int64 (..., k)."""
        return self._in_order([batch.mode() for _, batch in self.groups])

    def log_prob(self, action: Tensor) -> Tensor:
        """Return log-probabilities, float32 (...), of integer actions (..., k)."""
        return _total([batch.log_prob(_at(action, group.entries)).sum(-1) for group, batch in self.groups])

    def entropy(self) -> Tensor:
        """Return the entropy in nats, float32 (...)."""
        return _total([batch.entropy().sum(-1) for _, batch in self.groups])

    def _in_order(self, parts: list[Tensor]) -> Tensor:
        """Join the values of groups in the order of entries."""
        joined = parts[0].new_empty((*parts[0].shape[:-1], self.num_entries))
        for (group, _), part in zip(self.groups, parts, strict=True):
            joined[..., group.entries] = part
        return joined


def largest(
    values: Tensor, sizes: Sequence[int], mask: Tensor | None = None, masked: Sequence[int] | None = None
) -> Tensor:
    """Return the sum over the entries of an action of the largest value of an allowed choice, float32 (...), with gradients.

    Args:
        values: float32 (..., n_1 + ... + n_k), values of the choices of all entries, one after the other.
        sizes: n_1 ... n_k.
        mask: see ``MultiCategorical``. An entry without an allowed choice is 0, so it adds the value of choice 0.
        masked: see ``MultiCategorical``.
    """
    parts = []
    for group in _groups(tuple(sizes), _covered(sizes, mask, masked), values.device):
        of_group = _at(values, group.columns).unflatten(-1, (-1, group.size))
        if mask is not None and group.mask_columns is not None:
            allowed = _at(mask, group.mask_columns).unflatten(-1, (-1, group.size))
            best = torch.where(allowed, of_group, -math.inf)
            best = torch.where(allowed.any(-1), best.amax(-1), of_group[..., 0])
        else:
            best = of_group.amax(-1)
        parts.append(best.sum(-1))
    return _total(parts)


def _covered(sizes: Sequence[int], mask: Tensor | None, masked: Sequence[int] | None) -> tuple[int, ...]:
    """Return the numbers of the entries that a mask covers, in its order."""
    return () if mask is None else tuple(range(len(sizes))) if masked is None else tuple(masked)


def _total(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def _at(values: Tensor, places: slice | Tensor) -> Tensor:
    """Return places of the last axis."""
    return values[..., places] if isinstance(places, slice) else values.index_select(-1, places)


@functools.cache
def _groups(sizes: tuple[int, ...], covered: tuple[int, ...], device: torch.device) -> list[_Group]:
    """Group entries by size, those with a mask apart."""
    first = list(accumulate(sizes, initial=0))
    mask_first = dict(zip(covered, accumulate((sizes[entry] for entry in covered), initial=0), strict=False))
    alike: dict[tuple[int, bool], list[int]] = {}
    for entry, size in enumerate(sizes):
        alike.setdefault((size, entry in mask_first), []).append(entry)

    def places(starts: list[int], size: int) -> slice | Tensor:
        indices = [start + i for start in starts for i in range(size)]
        if indices == list(range(indices[0], indices[0] + len(indices))):
            return slice(indices[0], indices[0] + len(indices))
        with torch.inference_mode(False):  # the cached tensor is used with gradients
            return torch.tensor(indices, dtype=torch.int64, device=device)

    return [
        _Group(
            size,
            places(entries, 1),
            places([first[entry] for entry in entries], size),
            places([mask_first[entry] for entry in entries], size) if has_mask else None,
        )
        for (size, has_mask), entries in alike.items()
    ]


class DiagonalGaussian:
    """Independent normal distributions; the env clips their draws to its bounds."""

    def __init__(self, mean: Tensor, log_std: Tensor):
        """Store the parameters.

        Args:
            mean: float32 (..., k).
            log_std: float32 (k,), natural logarithm of the deviations, the same for every row.
        """
        self.mean = mean
        self.log_std = log_std.expand_as(mean)

    def mode(self) -> Tensor:
        """Return the mean, float32 (..., k)."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Return log-densities, float32 (...), of actions float32 (..., k)."""
        z = (action - self.mean) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.5 * math.log(2.0 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy in nats, float32 (...)."""
        return (self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1)
