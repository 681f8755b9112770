"""Variables of the environment in which a launcher such as ``torchrun`` describes this process."""

from __future__ import annotations

import os

from gpu_vecenv.train.errors import ConfigError

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables of the environment that a launcher sets."""


def num_processes() -> int:
    """Return the number of processes that the launcher started; 1 without a launcher."""
    return number("WORLD_SIZE", 1)


def own_rank() -> int:
    """Return the number of this process among those of the launcher; 0 without a launcher."""
    return number("RANK", 0)


def number(name: str, default: int) -> int:
    """Return a variable of the environment.

    Raises:
        ConfigError: it is no number.
    """
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isdigit():
        raise ConfigError(f"processes: expected a number in the variable {name}, got {text!r}")
    return int(text)
