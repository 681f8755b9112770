"""Bytes of an env on its device, counted before the env is made."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from gymnasium.vector import AutoresetMode

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import OutOfMemoryError
from gpu_vecenv.vector.outputs.results import Results, dtype_of
from gpu_vecenv.vector.outputs.views import View


def memory_needs(view: View, autoreset_mode: AutoresetMode, copy: bool) -> dict[str, int]:
    """Bytes that an env takes on its device, by purpose; actions of one step are included.

    With ``copy`` results count twice: the caller holds those of the last step while the next step writes new ones.
    """
    layout, worlds = view.layout, view.num_worlds
    state = sum(int(np.prod(layout.state_shape(f, worlds), dtype=object)) * np.dtype(f.dtype).itemsize for f in layout.state)
    tables = sum(values.nbytes for values in layout.tables.values())
    work = sum(worlds * int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype, _ in layout.workspaces.values())
    by_world = worlds * sum(values.itemsize for values in layout.by_world.values())
    masks = worlds * (1 + 4)  # worlds to reset, and worlds to copy
    arrays = Results(view, autoreset_mode is AutoresetMode.SAME_STEP)
    results = sum(_bytes(shape, dtype_of(name)) for name, shape in arrays.shapes.items())
    actions = sum(_bytes(shape, "float32" if dtype == "float32" else "int64") for shape, dtype in arrays.actions.values())
    dtypes = sorted({"float32" if dtype == "float32" else "int64" for _, dtype in arrays.actions.values()})
    return {
        "state": state,
        "workspace": work,
        "parameters, tables, masks": tables + by_world + masks,
        "results of a step" + (", two sets" if copy else ""): results * (2 if copy else 1),
        f"actions, {' and '.join(dtypes)}": actions,
    }


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize


def room_for(needs: Mapping[str, int], free: int, num_worlds: int) -> int:
    """Number of worlds that fit into ``free`` bytes, given the bytes that ``num_worlds`` worlds need."""
    return free * num_worlds // max(1, sum(needs.values()))


def require_room(view: View, autoreset_mode: AutoresetMode, copy: bool, device: str, memory: Memory) -> None:
    """Check that the device has room for an env, before its arrays are made.

    Raises:
        OutOfMemoryError: the env needs more bytes than are free; the message gives both, and the number of worlds that fit.
    """
    needs, free = memory_needs(view, autoreset_mode, copy), memory.free_bytes()
    total = sum(needs.values())
    if free is None or total <= free:
        return
    listed = ", ".join(f"{what} {size / 1e6:,.1f}" for what, size in needs.items())
    raise OutOfMemoryError(
        f"{view.layout.spec.name}: {view.num_worlds:,} worlds need {total / 1e6:,.1f} MB on {device} ({listed}), and "
        f"{free / 1e6:,.1f} MB are free: room for about {room_for(needs, free, view.num_worlds):,} worlds."
    )
