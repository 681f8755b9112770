"""Simulation of training on many GPUs: the all-reduce of gradients, large batches and local updates.

Nothing here runs on several GPUs. Ranks exchange arrays of the simulation, which count the time of each message, so both the sums
and the time can be compared with formulas; ``tests/docs/test_scale_out.py`` does. ``python tools/docs/scale_out_table.py`` writes
the tables of ``docs/design/scale-out.md`` from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Link:
    """A connection from one GPU to another."""

    latency_s: float
    """Seconds before the first byte of a message arrives."""
    bytes_per_s: float
    """Bytes a second after that, in one direction."""

    def seconds(self, size: float) -> float:
        """Return the seconds of a message of some bytes."""
        return self.latency_s + size / self.bytes_per_s


# Latencies of a step of a ring with small messages (protocol LL) in NCCL's own model of its speed, src/graph/tuning.cc. Rates are
# those of the vendor for one direction: NVLink 4 of an H100, and one port of InfiniBand NDR for each GPU.
NVLINK = Link(0.47e-6, 450e9)
NETWORK = Link(2.7e-6, 50e9)
LAUNCH_S = 3.6e-6
"""Seconds of an all-reduce beside its messages, from the same place."""
NODE = 8
"""GPUs of a node."""
FLOAT = 4
"""Bytes of a number of a gradient."""


def ring(values: np.ndarray, links: Sequence[Link]) -> tuple[np.ndarray, float]:
    """Sum arrays over ranks in a ring: each rank sends a part to the next one, ``2 (P - 1)`` times.

    Args:
        values: (P, n), an array of each rank; n is a multiple of P.
        links: the link from each rank to the next one.

    Returns:
        The array of each rank afterwards, and the seconds until the last part has arrived.
    """
    ranks, parts = len(values), np.array(np.split(values, len(values), axis=1))  # (part, rank, n / P)
    size = FLOAT * parts.shape[-1]
    ready = np.zeros(ranks)
    for step in range(2 * (ranks - 1)):
        sums = step < ranks - 1
        sent = [(rank - step) % ranks for rank in range(ranks)]
        messages = [parts[sent[rank], rank].copy() for rank in range(ranks)]
        arrived = [ready[rank] + links[rank].seconds(size) for rank in range(ranks)]
        for rank in range(ranks):
            there = (rank + 1) % ranks
            part = parts[sent[rank], there]
            parts[sent[rank], there] = part + messages[rank] if sums else messages[rank]
            ready[there] = arrived[rank]
    return np.concatenate(list(parts), axis=1), float(ready.max())


def doubling(values: np.ndarray, link: Link) -> tuple[np.ndarray, float]:
    """Sum arrays over ranks by exchanges with ranks at distances 1, 2, 4 and so on.

    Args:
        values: (P, n); P is a power of two.
        link: the link between any two ranks.

    Returns:
        See ``ring()``.
    """
    ranks, seconds, distance = len(values), 0.0, 1
    while distance < ranks:
        values = values + values[np.arange(ranks) ^ distance]
        seconds += link.seconds(FLOAT * values.shape[1])
        distance *= 2
    return values, seconds


def two_levels(values: np.ndarray, inner: Link, outer: Link) -> tuple[np.ndarray, float]:
    """Sum arrays over ranks of several nodes, in three phases.

    In each node a ring leaves a part with each GPU, GPUs of the same place exchange their parts between nodes, and a ring in each
    node distributes them.

    Args:
        values: (nodes, GPUs of a node, n); n is a multiple of the GPUs, and the nodes are a power of two.
        inner: the link inside a node.
        outer: the link between two GPUs of different nodes.

    Returns:
        See ``ring()``.
    """
    nodes, gpus, length = values.shape
    parts = values.reshape(nodes, gpus, gpus, length // gpus)
    scattered = parts.sum(axis=1)  # (nodes, part, n / GPUs): a ring that stops half way
    half = (gpus - 1) * inner.seconds(FLOAT * length / gpus)
    summed, between = np.empty_like(scattered), 0.0
    for part in range(gpus):
        summed[:, part], between = doubling(scattered[:, part], outer)
    whole = np.broadcast_to(summed.reshape(nodes, 1, length), values.shape)
    return whole, 2 * half + between


def ring_seconds(ranks: int, size: float, link: Link) -> float:
    """Return the seconds of ``ring()`` with equal links for arrays of ``size`` bytes."""
    return 2 * (ranks - 1) * link.seconds(size / ranks)


def two_level_seconds(nodes: int, gpus: int, size: float, inner: Link, outer: Link) -> float:
    """Return the seconds of ``two_levels()`` for arrays of ``size`` bytes."""
    return ring_seconds(gpus, size, inner) + math.log2(nodes) * outer.seconds(size / gpus)


def all_reduce_seconds(ranks: int, size: float) -> float:
    """Return the seconds of an all-reduce of a gradient of ``size`` bytes on nodes of ``NODE`` GPUs."""
    if ranks == 1:
        return 0.0
    if ranks <= NODE:
        return LAUNCH_S + ring_seconds(ranks, size, NVLINK)
    return LAUNCH_S + two_level_seconds(ranks // NODE, NODE, size, NVLINK, NETWORK)


def efficiency(ranks: int, iteration_s: float, size: float, all_reduces: int) -> float:
    """Return the share of an iteration that is no all-reduce, if nothing overlaps and each rank has the work of one GPU."""
    return iteration_s / (iteration_s + all_reduces * all_reduce_seconds(ranks, size))


def step_progress(batch_share: float) -> float:
    """Return the decrease of the loss in a step, divided by that of a step with an exact gradient.

    McCandlish et al. 2018 (arXiv 1812.06162), equation 2.7: ``1 / (1 + noise scale / batch)``.

    Args:
        batch_share: transitions of a minibatch, divided by the noise scale of the gradient.
    """
    return 1 / (1 + 1 / batch_share)


def simulated_progress(batch: int, noise_scale: float, draws: int, dimensions: int = 8, seed: int = 0) -> float:
    """Return the same of steps on a quadratic loss, each with the best step size and a mean of ``batch`` noisy gradients.

    Args:
        batch: gradients that are averaged.
        noise_scale: variance of a gradient, divided by the square of its mean.
        draws: steps whose decrease is averaged.
        dimensions: weights.
        seed: seed of the noise.
    """
    generator = np.random.default_rng(seed)
    mean = np.ones(dimensions)
    deviation = math.sqrt(noise_scale * mean @ mean / dimensions)
    noisy = mean + deviation * generator.standard_normal((draws, batch, dimensions)).mean(1)
    size = (noisy @ mean).mean() / (noisy**2).sum(1).mean()  # of a loss with the second derivative 1
    decrease = size * noisy @ mean - size**2 * (noisy**2).sum(1) / 2
    return float(decrease.mean() / (mean @ mean / 2))


def speed_up(ranks: int, batch_share: float) -> float:
    """Return how much fewer steps ``ranks`` GPUs need to the same loss, each with a batch as one GPU has alone."""
    return step_progress(ranks * batch_share) / step_progress(batch_share)


def drift(signal: float, batch: int) -> float:
    """Return the mean step of an optimiser that follows the sign of a noisy gradient, as Adam does where noise dominates.

    Args:
        signal: mean of a gradient, divided by its deviation.
        batch: gradients that are averaged before the sign is taken.
    """
    return math.erf(signal * math.sqrt(batch / 2))


def simulated_drift(signal: float, ranks: int, batch: int, local: bool, draws: int, seed: int = 0) -> float:
    """Return the same from draws: signs of each rank, averaged (``local``), or the sign of the ranks' mean gradient."""
    noise = np.random.default_rng(seed).standard_normal((draws, ranks, batch))
    gradients = signal + noise.mean(2)
    return float(np.sign(gradients).mean() if local else np.sign(gradients.mean(1)).mean())
