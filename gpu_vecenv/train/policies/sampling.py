"""Actions of policies, drawn from counters with torch's operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.train.policies.contract import Draw
from gpu_vecenv.train.policies.distributions import DiagonalGaussian, MultiCategorical

_STEP = -0x61C8864680B583EB
"""The odd constant 2^64 / golden ratio, as int64."""


class Drawn(NamedTuple):
    """Actions of rows, whose axes are those of ``Draw.world``."""

    action: Tensor
    """int32 or float32 (..., k)."""
    log_prob: Tensor
    """float32 (...), log-probability of the action, or log-density."""


def draw_choices(
    logits: Tensor,
    sizes: Sequence[int],
    draw: Draw,
    mask: Tensor | None = None,
    masked: Sequence[int] | None = None,
    deterministic: bool = False,
) -> Drawn:
    """Draw one choice for each entry of an action.

    Args:
        logits: float32 (..., n_1 + ... + n_k), unnormalised log-probabilities of all entries, one after the other.
        sizes: n_1 ... n_k; one size for Discrete.
        draw: counters of the rows.
        mask: bool (..., number of choices of the masked entries), True where a choice is allowed. None allows all.
        masked: numbers of the entries that the mask covers, in its order; None if it covers all.
        deterministic: take the likeliest choice, the first of several.
    """
    distribution = MultiCategorical(logits, list(sizes), mask, masked)
    if deterministic:
        action = distribution.mode()
    else:
        # The exponential race: with E_i from Exp(1), p_i / E_i is the largest with probability p_i.
        races = (-_uniforms(draw, sum(sizes)).log()).log().split(list(sizes), dim=-1)
        pairs = zip(distribution.entries, races, strict=True)
        action = torch.stack([torch.argmax(entry.log_probs - race, dim=-1) for entry, race in pairs], dim=-1)
    return Drawn(action.int(), distribution.log_prob(action))


def draw_normal(mean: Tensor, log_std: Tensor, draw: Draw, deterministic: bool = False) -> Drawn:
    """Draw numbers from independent normal distributions; nothing is clipped.

    Args:
        mean: float32 (..., k).
        log_std: float32 (k,), natural logarithm of the deviations, the same for every row.
        draw: counters of the rows.
        deterministic: take the mean.
    """
    action = mean
    if not deterministic:
        radius, angle = _uniforms(draw, 2 * mean.shape[-1]).chunk(2, dim=-1)  # the method of Box and Muller
        action = mean + log_std.exp() * (-2.0 * radius.log()).sqrt() * (2.0 * math.pi * angle).cos()
    return Drawn(action, DiagonalGaussian(mean, log_std).log_prob(action))


def draw_uniform(low: Tensor, high: Tensor, draw: Draw) -> Drawn:
    """Draw numbers from uniform distributions; their log-probability is 0, unused.

    Args:
        low: float32 (k,), lower bounds.
        high: float32 (k,), upper bounds; ``high - low`` is finite.
        draw: counters of the rows.
    """
    action = low + (high - low) * _uniforms(draw, low.shape[0])
    return Drawn(action, action.new_zeros(action.shape[:-1]))


def _uniforms(draw: Draw, count: int) -> Tensor:
    """Return ``count`` uniform numbers in (0, 1) for each row, float32 (..., count).

    They are a hash of the counters by the finalizer of SplitMix64 (Steele et al., "Fast splittable pseudorandom number
    generators", OOPSLA 2014).
    """
    world = draw.world.long()
    state = _mix(draw.seed + _STEP)
    state = _mix(state ^ (draw.world_id.long() << 32 | draw.episode.long()))[world]
    state = _mix(state ^ (draw.t.long()[world] << 32 | draw.agent.long()))
    entries = torch.arange(1, count + 1, device=state.device) * _STEP
    # 23 bits and a half are exact in float32, and neither 0 nor 1.
    return (((_mix(state.unsqueeze(-1) + entries) >> 41) & 0x7FFFFF).float() + 0.5) * 2.0**-23


def _mix(x: Tensor) -> Tensor:
    """Return int64 numbers whose bits all depend on all bits of ``x``."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & ((1 << 33) - 1))
