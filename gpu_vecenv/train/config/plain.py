"""Values as JSON stores them: NumPy's numbers and arrays become Python's."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.train.errors import ConfigError


def plain(value: Any, name: str = "env_kwargs") -> Any:
    """Return a value that is equal before and after JSON: NumPy scalars become numbers, arrays and tuples lists.

    Args:
        value: numbers, text, None, NumPy scalars and arrays of these, and lists, tuples and dicts of all of these.
        name: name of the value in the error message.

    Raises:
        ConfigError: the value holds another object, or a dict with a key that is no text.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {str(key): plain(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{name}[{index}]") for index, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ConfigError(f"{name}: expected numbers, text, lists and dicts with keys of text, got {value!r}")
