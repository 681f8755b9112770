"""Check that action masks allow a choice, with ``debug=True``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import ActionError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.validation import Array
from gpu_vecenv.vector.outputs.results import Results


def require_choices(layout: Layout, results: Results, memory: Memory, arrays: Sequence[Array]) -> None:
    """Check that each mask of a step or a rollout allows a choice in each entry. Waits for the device.

    Raises:
        ActionError: a mask without an allowed choice.
    """
    for group in layout.groups:
        name = f"{group.prefix}action_mask"
        if not group.masked:
            continue
        mask = memory.to_numpy(arrays[results.indices[name]])
        ends = np.cumsum(group.masked_choices)
        for entry, part in zip(group.masked, np.split(mask, ends[:-1], axis=-1), strict=True):
            blocked = ~part.any(axis=-1)
            if blocked.any():
                raise ActionError(
                    f"{layout.spec.name}: env_observe must allow a choice of each masked entry, got a mask of "
                    f"{group.role or 'an agent'} that allows none in entry {entry}, at {np.argwhere(blocked)[0].tolist()}."
                )
