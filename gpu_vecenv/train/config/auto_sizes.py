"""Bounds of the search that ``TrainConfig(num_envs="auto")`` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpu_vecenv.train.config.checks import COUNT, MAX_INT, POSITIVE, Check, check_fields, count, suggests_names
from gpu_vecenv.train.config.ppo import MAX_ROLLOUT
from gpu_vecenv.train.errors import ConfigError

AUTO: Final = "auto"
"""Value of ``TrainConfig.num_envs`` that asks for a search."""

MIN_UPDATES = 200
"""Default of ``AutoSizes.min_updates``."""


@suggests_names
@dataclass(frozen=True)
class AutoSizes:
    """Bounds of the search for the number of worlds, the length of a rollout and the number of minibatches.

    A bound is a pair: the least and the most value. Equal values keep an option as it is. If no sizes fit, as in short runs, the
    run keeps those of its preset, unless bounds exclude them.
    """

    num_envs: tuple[int, int] | None = None
    """Least and most worlds. None: from as many as give a rollout the steps of the preset's, summed over worlds, to what memory,
    ``min_updates`` and the minibatches allow."""
    num_steps: tuple[int, int] | None = None
    """Shortest and longest rollout. None: from the horizon of advantages, 1 / (1 - gamma * lambda), to ``num_steps`` of the
    run's options; policies with a memory keep those."""
    num_minibatches: tuple[int, int] | None = None
    """Fewest and most minibatches of an epoch. None: as many as the run needs for the optimiser steps of its preset, up to four
    times as many."""
    min_updates: int = MIN_UPDATES
    """Updates that the run has at least, unless it keeps the preset's sizes. Each follows a rollout, so a rollout has at most
    ``total_steps / min_updates`` steps, summed over worlds."""
    seconds: float = 20.0
    """Seconds of the search. No trial begins that would end later, as far as earlier ones tell. Half of them are left after the
    first trial, which may compile kernels."""

    def __post_init__(self) -> None:
        """Check types and ranges."""
        for name in ("num_envs", "num_steps", "num_minibatches"):
            if isinstance(value := getattr(self, name), list):  # as in files
                object.__setattr__(self, name, tuple(value))
        try:
            check_fields(self, AUTO_SIZES_CHECKS)
        except ConfigError as error:  # options of a run have the same names
            raise ConfigError(f"auto_sizes.{error}") from None


def _pair(most: int) -> Check:
    """Return a check for two integers from 1 to ``most``, the smaller one first, or None."""
    one = count(most)

    def test(value: object) -> bool:
        return isinstance(value, tuple) and len(value) == 2 and all(map(one.test, value)) and value[0] <= value[1]

    return Check(test, f"two integers from 1 to {most}, the smaller one first, such as (16, 64)", is_count=True).or_none()


AUTO_SIZES_CHECKS: Mapping[str, Check] = {
    "num_envs": _pair(MAX_INT),
    "num_steps": _pair(MAX_ROLLOUT),
    "num_minibatches": _pair(MAX_INT),
    "min_updates": COUNT,
    "seconds": POSITIVE,
}
"""Valid values of each field."""
