"""Random-number identity of worlds: which seed and which number each one draws with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from gpu_vecenv.errors import ParameterError, ShapeError
from gpu_vecenv.spec.given import abbreviated, whole_number

MAX_SEED = 2**64 - 1

Seed = int | list[int | None] | None


def check_seed(seed: object, num_worlds: int) -> Seed:
    """What ``reset`` was given as a seed: an int, a list with an entry a world, or None. Draws nothing.

    Raises:
        ShapeError: a list of the wrong length.
        ParameterError: not an integer in [0, 2^64).
    """
    if seed is None:
        return None
    several = getattr(seed, "ndim", 0) > 0 or isinstance(seed, Sequence) and not isinstance(seed, str | bytes)
    if not several:
        return _checked(seed)
    given = list(cast(Iterable[object], seed))
    if len(given) != num_worlds:
        raise ShapeError(f"a list of seeds holds one seed a world: expected {num_worlds}, got {len(given)}.")
    return [None if one is None else _checked(one) for one in given]


def world_identity(
    seed: Seed, num_worlds: int, first_world: int, np_random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Seeds and numbers of all worlds.

    An int gives every world that seed and the number ``first_world + slot``, so that a world's path does not depend on
    how many run beside it or on which GPU. A list gives each world a seed of its own and the number 0. None draws one
    seed from the host generator; in a list, one for that world.

    Returns:
        seed: uint64 (num_worlds,).
        world_id: int32 (num_worlds,).
    """
    if isinstance(seed, list):
        drawn = [draw_seed(np_random) if one is None else one for one in seed]
        return np.array(drawn, np.uint64), np.zeros(num_worlds, np.int32)
    if seed is None:
        seed = draw_seed(np_random)
    return np.full(num_worlds, seed, np.uint64), np.arange(first_world, first_world + num_worlds, dtype=np.int32)


def draw_seed(np_random: np.random.Generator) -> int:
    """A seed for worlds that were given none."""
    return int(np_random.integers(2**63))


def check_first_world(first_world: object, num_worlds: int) -> int:
    """The number of the first world.

    Raises:
        ParameterError: not an integer from 0, or so large that a world's number would not fit 32 bits.
    """
    last = 2**31 - num_worlds
    number = whole_number(first_world)
    if number is None or not 0 <= number <= last:
        raise ParameterError(f"first_world must be an integer from 0 to {last}, got {abbreviated(first_world)}.")
    return number


def _checked(seed: object) -> int:
    number = whole_number(seed)
    if number is None or not 0 <= number <= MAX_SEED:
        raise ParameterError(f"a seed must be an integer from 0 to 2**64 - 1, got {abbreviated(seed)}.")
    return number
