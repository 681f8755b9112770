"""The table of a vector env that a notebook shows."""

from __future__ import annotations

from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode

from gpu_vecenv.vector.outputs.views import View


def table_rows(shapes: View, view: str, arrays: str, mode: AutoresetMode) -> dict[str, object]:
    """Return the rows of the table.

    Args:
        shapes: shapes and spaces of the env.
        view: name of the view.
        arrays: kind of the arrays, and their device.
        mode: autoreset mode.
    """
    layout = shapes.layout
    roles = ", ".join(f"{role}: {count:,}" for role, count in layout.role_counts.items())
    rows: dict[str, object] = {
        "env": layout.spec.name,
        "worlds": f"{shapes.num_worlds:,}",
        "agents in a world": roles if len(layout.role_counts) > 1 or layout.num_agents > 1 else 1,
    }
    for group in layout.groups:
        name = f" of a {group.role}" if group.role else "" if layout.num_agents == 1 else " of an agent"
        shared = f", and {_text(group.shared)} in common" if group.shared is not None else ""
        rows[f"observation{name}"] = _text(group.observation) + shared
        flags = ("masks",) * bool(group.masked) + ("flags of effect",) * bool(group.effects)
        rows[f"action{name}"] = _text(group.action) + (f", with {' and '.join(flags)}" if flags else "")
    rows["view"] = f"{view}, leading axis {shapes.num_envs:,}"
    rows["arrays"] = arrays
    rows["autoreset"] = mode.name.lower()
    return rows


def _text(space: Space) -> str:
    """Return a space in a few words; the bounds of a Box only if all its numbers have the same."""
    if not isinstance(space, Box):
        return repr(space)
    low, high = space.low.min(), space.high.max()
    same = space.low.max() == low and space.high.min() == high and space.is_bounded()
    return f"{space.dtype} {space.shape}" + (f", from {low:g} to {high:g}" if same else "")
