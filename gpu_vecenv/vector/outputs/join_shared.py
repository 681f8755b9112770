"""Joins shared and own features to rows, and masks to those of all entries, for code that does not take them in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.spec.validation import ArrayT, array_library, describe, on_device
from gpu_vecenv.vector.outputs.tree import require_roles


def whole_obs(parts: Mapping[str, ArrayT]) -> ArrayT:
    """Join the parts of a role's observations on their device.

    Args:
        parts: ``shared`` float32 ``(N, S)`` and ``own`` float32 ``(N, A_r, P)``, as an env with a shared part returns them for a
            role; both may have further leading axes, such as the steps of a rollout. Torch, CuPy, NumPy or JAX.

    Returns:
        float32 ``(N, A_r, S + P)``: for each agent the shared features, then its own. It is a new array.

    Raises:
        ParameterError: not a dict with the keys ``shared`` and ``own``.
        ArrayTypeError: arrays of another kind, or of two kinds.
        ShapeError: the leading axes do not fit.
    """
    checked = require_roles("parts", parts, {"shared": None, "own": None})
    shared, own = checked["shared"], checked["own"]
    kinds = {describe(array).kind for array in (shared, own)}
    if len(kinds) > 1 or not kinds <= {"torch", "cupy", "numpy", "jax"}:
        raise ArrayTypeError(f"parts must be two arrays of torch, CuPy, NumPy or JAX, got {' and '.join(sorted(kinds))}.")
    if len(own.shape) < 2 or tuple(shared.shape[:-1]) != tuple(own.shape[:-2]) or len(shared.shape) != len(own.shape) - 1:
        raise ShapeError(f"parts must be shared (N, S) and own (N, A_r, P), got {tuple(shared.shape)} and {tuple(own.shape)}.")
    rows: ArrayT = _side_by_side([shared[..., None, :], own], own.shape[:-1])
    return rows


def joined_space(group: Group) -> Box:
    """Return the observation space of one agent of a group, with the shared part in front.

    Raises:
        ParameterError: the group has a shared part, and its observations are not vectors.
    """
    if group.shared is None:
        return group.observation
    if len(group.shared.shape) != 1 or len(group.observation.shape) != 1:
        shapes = f"{group.shared.shape} and {group.observation.shape}"
        raise ParameterError(f"{group.role}: shared and own part must be vectors to be joined to whole rows, got {shapes}.")
    low, high = (np.concatenate([getattr(box, end) for box in (group.shared, group.observation)]) for end in ("low", "high"))
    return Box(low, high, dtype=np.float32)


def full_mask(group: Group, mask: Any) -> Any:
    """Return masks of all entries of an action, with True for each choice of an entry without a mask.

    Args:
        group: agents with masks.
        mask: bool ``(..., M)``, masks of the masked entries side by side.

    Returns:
        bool ``(..., sum of all choices)``, the form that sb3-contrib and other libraries expect; ``mask`` itself if all entries
        have masks.
    """
    if group.masked == tuple(range(group.num_entries)):
        return mask
    starts = dict(zip(group.masked, np.cumsum([0, *group.masked_choices]).tolist(), strict=False))
    allowed = mask[..., :1] | True
    pieces = [
        (mask[..., starts[entry] : starts[entry] + choices], choices) if entry in starts else (allowed, choices)
        for entry, choices in enumerate(group.choices)
    ]
    return _side_by_side([piece for piece, _ in pieces], mask.shape[:-1], [choices for _, choices in pieces])


def _side_by_side(arrays: Sequence[Any], lead: Any, lengths: Sequence[int] | None = None) -> Any:
    """Concatenate arrays along their last axis, after broadcasts to the leading axes ``lead`` and to ``lengths``."""
    kind = describe(arrays[0])
    library = array_library(kind.kind)
    lengths = lengths or [array.shape[-1] for array in arrays]
    with on_device(arrays[0].device.id) if kind.kind == "cupy" else nullcontext():
        pieces = [library.broadcast_to(array, (*lead, length)) for array, length in zip(arrays, lengths, strict=True)]
        return library.concatenate(pieces, -1)
