"""Means over runs and their intervals, of single numbers and of curves."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

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


@functools.cache
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


MAX_POINTS = 2_000
"""Most points of a mean curve."""


class MeanCurve(NamedTuple):
    """Mean of the curves of several runs; float64 arrays of one length."""

    x: np.ndarray
    """Steps of a run, summed over its worlds, in ascending order."""
    mean: np.ndarray
    """Mean over the runs whose curve reaches ``x``; NaN where none does."""
    half: np.ndarray
    """Half the width of the mean's interval by Student's t; NaN with fewer than two runs."""


def mean_curve(curves: Sequence[tuple[Sequence[float], Sequence[float]]], confidence: float = 0.95) -> MeanCurve:
    """Return the mean of curves, and its interval, at the points of all of them.

    A curve is linear between its points, and has no value before the first or behind the last one.

    Args:
        curves: for each run its x, in ascending order and without duplicates, and its y, both without NaN; either may be empty.
        confidence: probability of the interval.
    """
    nonempty = [(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in curves if len(x)]
    at = np.unique(np.concatenate([x for x, _ in nonempty])) if nonempty else np.empty(0)
    if len(at) > MAX_POINTS:
        at = at[np.linspace(0, len(at) - 1, MAX_POINTS).round().astype(int)]
    if not nonempty:
        return MeanCurve(at, at, at)
    values = np.stack([np.interp(at, x, y, left=math.nan, right=math.nan) for x, y in nonempty])
    count = np.isfinite(values).sum(0)
    known = np.where(np.isfinite(values), values, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(count > 0, known.sum(0) / count, math.nan)
        squares = np.where(np.isfinite(values), (values - mean) ** 2, 0.0).sum(0)
        error = np.sqrt(squares / (count - 1) / count)
    quantiles = {int(n): student_quantile(0.5 + confidence / 2, int(n) - 1) for n in np.unique(count) if n > 1}
    return MeanCurve(at, mean, np.array([quantiles.get(int(n), math.nan) for n in count]) * error)


def interquartile_mean(values: Sequence[float] | np.ndarray) -> float:
    """Return the mean without the lowest and the highest quarter of the values; quarters are rounded down."""
    ordered = np.sort(np.asarray(values, np.float64), axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def bootstrap_interval(scores: np.ndarray, confidence: float = 0.95, samples: int = 10_000) -> tuple[float, float]:
    """Return the ends of the interval of ``interquartile_mean()`` by the stratified bootstrap.

    Source: Agarwal et al. 2021, arXiv 2108.13264. Runs are drawn with replacement for each task separately; the ends are
    percentiles of the results.

    Args:
        scores: (runs, tasks), or (runs,) for one task.
        confidence: probability of the interval.
        samples: number of draws.
    """
    table = np.asarray(scores, np.float64).reshape(len(scores), -1)
    runs, tasks = table.shape
    drawn = np.random.default_rng(0).integers(runs, size=(samples, runs, tasks))
    ordered = np.sort(table[drawn, np.arange(tasks)].reshape(samples, -1), axis=1)
    cut = ordered.shape[1] // 4
    means = ordered[:, cut : ordered.shape[1] - cut].mean(1)
    low, high = np.quantile(means, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return float(low), float(high)
