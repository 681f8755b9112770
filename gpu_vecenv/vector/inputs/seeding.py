"""Random keys of worlds: the ``seed`` and the ``world_id`` of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from gpu_vecenv.errors import ParameterError, ShapeError
from gpu_vecenv.spec.validation import abbreviated, host_array, whole_number

MAX_SEED = 2**64 - 1

Seed = int | list[int | None] | None


def check_seed(seed: object, num_worlds: int) -> Seed:
    """Return the ``seed`` of ``reset``: an int, a list with one entry for each world, or None. Draws no random number.

    Raises:
        ShapeError: a list of the wrong length.
        ParameterError: not an integer in [0, 2^64).
        ArrayTypeError, DeviceError: an array that cannot be read.
    """
    if seed is None:
        return None
    seed = host_array(seed, "a seed")
    is_list = getattr(seed, "ndim", 0) > 0 or isinstance(seed, Sequence) and not isinstance(seed, str | bytes)
    if not is_list:
        return check_one_seed(seed)
    seeds = list(cast(Iterable[object], seed))
    if len(seeds) != num_worlds:
        raise ShapeError(f"a list of seeds holds one seed a world: expected {num_worlds}, got {len(seeds)}.")
    return [None if one is None else check_one_seed(one) for one in seeds]


def world_keys(
    seed: Seed, num_worlds: int, first_world: int, np_random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the seeds and the world ids of all worlds.

    An int gives every world this seed, and world i the id ``first_world + i``. A world's random numbers thus depend neither on
    the number of worlds nor on the GPU. A list gives each world its own seed and the id 0. None draws one seed from the host
    generator; a None in a list draws one for that world.

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
    """Draw a seed for worlds to which the caller gave none."""
    return int(np_random.integers(2**63))


def check_first_world(first_world: object, num_worlds: int) -> int:
    """Return the number of the first world.

    Raises:
        ParameterError: not an integer from 0, or too large for the ids of all worlds to stay below 2**31.
    """
    last = 2**31 - num_worlds
    number = whole_number(first_world)
    if number is None or not 0 <= number <= last:
        raise ParameterError(f"first_world must be an integer from 0 to {last}, got {abbreviated(first_world)}.")
    return number


def check_one_seed(seed: object) -> int:
    """Return a seed as Python's int.

    Raises:
        ParameterError: not an integer in [0, 2^64).
    """
    number = whole_number(seed)
    if number is None or not 0 <= number <= MAX_SEED:
        raise ParameterError(f"a seed must be an integer from 0 to 2**64 - 1, got {abbreviated(seed)}.")
    return number
