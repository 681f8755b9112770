"""Counters of made-up rows, and an independent implementation of draws in NumPy and double precision."""

from __future__ import annotations

import numpy as np
import torch

from gpu_vecenv.train.policies.contract import Draw

POLICY = 0xFBFE
"""Purpose of the first four entries."""


def counters(worlds: int, agents: int, seed: int = 7, world_id: int = 0, episode: int = 0, t: int = 0) -> Draw:
    """Rows of worlds with agents each, in the order of worlds; all worlds have the same seed, episode and step."""

    def full(value: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.full((worlds,), value, dtype=dtype)

    world, agent = np.divmod(np.arange(worlds * agents, dtype=np.int32), agents)
    return Draw(
        full(seed, torch.int64),
        full(world_id) + torch.arange(worlds, dtype=torch.int32),
        full(episode),
        full(t),
        torch.from_numpy(world),
        torch.from_numpy(agent),
    )


def philox(key: np.ndarray, counter: list[np.ndarray]) -> np.ndarray:
    """Philox4x32-10 after Salmon et al. (2011), uint64 arrays of 32-bit words; returns (..., 4)."""
    low32 = np.uint64(0xFFFFFFFF)
    k0, k1 = key & low32, key >> np.uint64(32)
    c0, c1, c2, c3 = counter
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (second >> np.uint64(32)) ^ c1 ^ k0, second & low32, (first >> np.uint64(32)) ^ c3 ^ k1, first & low32
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low32, (k1 + np.uint64(0xBB67AE85)) & low32
    return np.stack([c0, c1, c2, c3], -1)


def words(draw: Draw, entries: int) -> np.ndarray:
    """Random words of entries, with all four of a draw behind the entry's place in it: uint64 (B, ceil(k / 4), 4)."""
    world, agent = (x.cpu().numpy().astype(np.int64) for x in (draw.world, draw.agent))
    of_world = [x.cpu().numpy()[world].astype(np.int64).view(np.uint64) for x in (draw.world_id, draw.episode, draw.t)]
    key = draw.seed.cpu().numpy().view(np.uint64)[world]
    last = [(np.uint64(POLICY - q) << np.uint64(16)) | agent.view(np.uint64) for q in range(-(-entries // 4))]
    return np.stack([philox(key, [*of_world, purpose]) for purpose in last], 1)


def expected_choices(draw: Draw, logits: np.ndarray, sizes: list[int], mask: np.ndarray) -> tuple[np.ndarray, ...]:
    """Choices from the cumulative probabilities in double, and the distance of each draw to the nearest boundary.

    Args:
        draw: counters of B rows.
        logits: (B, n_1 + ... + n_k).
        sizes: n_1 ... n_k.
        mask: bool, of the same shape.

    Returns:
        choice int64 (B, k), distance to the nearest cumulative probability (B, k), log-probabilities of all choices (B, ...).
    """
    drawn = words(draw, len(sizes)).reshape(len(logits), -1)
    choices, distances, logs = [], [], []
    ends = np.cumsum(sizes)
    for entry, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        part, allowed = (x[:, end - size : end] for x in (logits.astype(np.float64), mask))
        part = np.where(allowed, part, -np.inf)
        with np.errstate(invalid="ignore", divide="ignore"):
            p = np.exp(part - part.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            logs.append(np.log(p))
        u = (drawn[:, entry].astype(np.float64)[:, None] + 0.5) / 2**32
        cumulative = np.cumsum(p, 1)
        choices.append((cumulative > u).argmax(1))
        distances.append(np.abs(cumulative - u).min(1))
    return np.stack(choices, 1), np.stack(distances, 1), np.concatenate(logs, 1)
