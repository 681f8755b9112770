"""Twins in NumPy of calls of kernels, for references that a test compares an env with."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.errors import ParameterError

_LOW = np.uint64(0xFFFFFFFF)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


class Drawn:
    """Four random words, or those of several agents.

    Attributes:
        word: uint32 (4,), or (n, 4) for n agents.
    """

    def __init__(self, word: np.ndarray) -> None:
        self.word = word

    def uniform(self, k: int = 0) -> Any:
        """Return word k as a float32 in [0, 1), made of its 24 high bits."""
        return (self.word[..., k] >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)

    def below(self, n: Any, k: int = 0) -> Any:
        """Return word k as an int32 in 0 .. n - 1, the high word of their product."""
        product = self.word[..., k].astype(np.uint64) * np.asarray(n).astype(np.uint64)
        return (product >> np.uint64(32)).astype(np.int32)


def draw(seed: int, world_id: int, episode: int, step: int, purpose: int, agent: Any = 0) -> Drawn:
    """Return what ``w.draw(purpose, agent)`` returns in a kernel, with the same bits.

    The first four arguments are state fields of the world: ``seed``, ``world_id``, ``episode`` and ``t``. In ``env_reset``,
    ``t`` is 0, and in ``env_step`` it counts the present step already, so it is 1 in the first one.

    Args:
        seed: 0 to 2**64 - 1.
        world_id: 0 to 2**31 - 1.
        episode: 0 to 2**31 - 1.
        step: ``t`` while the hook runs.
        purpose: 0 to 0xFAFD.
        agent: 0 to 2**31 - 1, one or an array of n.

    Returns:
        The words. Their algorithm is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

    Raises:
        ParameterError: an argument out of its range.
    """
    limits = {"seed": 2**64 - 1, "world_id": 2**31 - 1, "episode": 2**31 - 1, "step": 2**31 - 1, "purpose": 0xFAFD}
    for (name, most), value in zip(limits.items(), (seed, world_id, episode, step, purpose), strict=True):
        if not 0 <= int(value) <= most:
            raise ParameterError(f"draw: {name} must be an integer from 0 to {most}, got {value}.")
    agents = np.asarray(agent)
    if agents.dtype.kind not in "iu" or agents.size and not (agents.min() >= 0 and agents.max() < 2**31):
        raise ParameterError(f"draw: agent must hold integers from 0 to {2**31 - 1}, got {agent!r}.")
    agents = agents.astype(np.uint64)
    high, low = agents >> np.uint64(16), agents & np.uint64(0xFFFF)
    key = np.uint64(int(seed)) ^ (high * np.uint64(0x9E3779B1) & _LOW) << np.uint64(32)  # gv_agent_key() of kernels/lib/rng.h
    counter = [np.full(agents.shape, int(word), np.uint64) for word in (world_id, episode, step)]
    return Drawn(_philox(key, [*counter, np.uint64(int(purpose) << 16) | low]))


def _philox(key: np.ndarray, counter: list[np.ndarray]) -> np.ndarray:
    """Return the words, uint32 (..., 4), of a key and of a counter of four words, all uint64 (...)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key & _LOW, key >> np.uint64(32)
    for _ in range(10):
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (second >> np.uint64(32)) ^ c1 ^ k0, second & _LOW, (first >> np.uint64(32)) ^ c3 ^ k1, first & _LOW
        k0, k1 = (k0 + _STEPS[0]) & _LOW, (k1 + _STEPS[1]) & _LOW
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)
