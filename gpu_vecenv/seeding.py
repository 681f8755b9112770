"""Random-number identity of worlds: which seed and which number each one draws with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_vecenv.errors import ParameterError, ShapeError

MAX_SEED = 2**64 - 1


def world_identity(
    seed: int | Sequence[int | None] | None, num_worlds: int, first_world: int, np_random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Seeds and numbers of all worlds.

    An int gives every world that seed and the number ``first_world + slot``, so that a world's path does not depend on
    how many run beside it or on which GPU. A list gives each world a seed of its own and the number 0. None draws one
    seed from the host generator.

    Returns:
        seed: uint64 (num_worlds,).
        world_id: int32 (num_worlds,).

    Raises:
        ShapeError: a list of the wrong length.
        ParameterError: not an integer in [0, 2^64).
    """
    if seed is None:
        seed = int(np_random.integers(2**63))
    if isinstance(seed, int | np.integer):
        seeds = np.full(num_worlds, _checked(seed), np.uint64)
        return seeds, np.arange(first_world, first_world + num_worlds, dtype=np.int32)
    given = list(seed)
    if len(given) != num_worlds:
        raise ShapeError(f"a list of seeds holds one seed a world: expected {num_worlds}, got {len(given)}.")
    drawn = [int(np_random.integers(2**63)) if one is None else _checked(one) for one in given]
    return np.array(drawn, np.uint64), np.zeros(num_worlds, np.int32)


def _checked(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= int(seed) <= MAX_SEED:
        raise ParameterError(f"a seed must be an integer from 0 to 2**64 - 1, got {seed!r}.")
    return int(seed)
