"""Bytes of arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from torch import Tensor


def bytes_of(value: object) -> int:
    """Return the bytes of all tensors in a tensor, or in nested dataclasses, sequences and mappings."""
    if isinstance(value, Tensor):
        return value.nbytes
    if dataclasses.is_dataclass(value):
        value = [getattr(value, each.name) for each in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    return sum(map(bytes_of, value)) if isinstance(value, Sequence) and not isinstance(value, str) else 0
