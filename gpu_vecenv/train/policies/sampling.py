"""Draws of actions from counters."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gpu_vecenv.train.policies.contract import Draw
from gpu_vecenv.train.policies.distributions import Categorical, DiagonalGaussian, Distribution, MultiCategorical

_STEP = -0x61C8864680B583EB
"""The odd constant 2^64 / golden ratio, as int64."""


def uniforms(draw: Draw, count: int) -> Tensor:
    """Return ``count`` uniform numbers in (0, 1) for each row, float32 (B, count) or (B, a, count).

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


def sample(distribution: Distribution, draw: Draw) -> Tensor:
    """Draw an action for each row: int64 indices, or float32."""
    if isinstance(distribution, DiagonalGaussian):
        mean = distribution.mean
        radius, angle = uniforms(draw, 2 * mean.shape[-1]).chunk(2, dim=-1)  # the method of Box and Muller
        noise = (-2.0 * radius.log()).sqrt() * (2.0 * math.pi * angle).cos()
        return mean + distribution.log_std.exp() * noise
    entries = [distribution] if isinstance(distribution, Categorical) else _entries(distribution)
    sizes = [entry.log_probs.shape[-1] for entry in entries]
    # The exponential race: with E_i from Exp(1), p_i / E_i is the largest with probability p_i.
    races = (-uniforms(draw, sum(sizes)).log()).log().split(sizes, dim=-1)
    chosen = [torch.argmax(entry.log_probs - race, dim=-1) for entry, race in zip(entries, races, strict=True)]
    return chosen[0] if isinstance(distribution, Categorical) else torch.stack(chosen, dim=-1)


def _entries(distribution: Distribution) -> list[Categorical]:
    if not isinstance(distribution, MultiCategorical):
        raise TypeError(f"expected a Categorical, MultiCategorical or DiagonalGaussian, got {type(distribution).__name__}")
    return distribution.entries


def _mix(x: Tensor) -> Tensor:
    """Return int64 numbers whose bits all depend on all bits of ``x``."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & ((1 << 33) - 1))
