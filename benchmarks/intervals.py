"""Intervals of means over a few seeds, for the benchmarks of learning."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def student_cdf(x: float, freedom: float, points: int = 4001) -> float:
    """Return the probability that Student's t is at most ``x``, by Simpson's rule on its density."""
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    at = np.linspace(0.0, abs(x), points)
    density = np.exp(log_scale - (freedom + 1) / 2 * np.log1p(at**2 / freedom))
    weights = np.where(np.arange(points) % 2, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    half = float((weights * density).sum() * abs(x) / (points - 1) / 3)
    return 0.5 + math.copysign(half, x)


def student_quantile(probability: float, freedom: float) -> float:
    """Return the value below which Student's t lies with a probability in [0.5, 1), by bisection."""
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the mean, and half the width of its interval by Student's t; NaN for the latter with one value."""
    count = len(values)
    if count < 2:
        return float(np.mean(values)), math.nan
    quantile = student_quantile(0.5 + confidence / 2, count - 1)
    return float(np.mean(values)), quantile * float(np.std(values, ddof=1)) / math.sqrt(count)
