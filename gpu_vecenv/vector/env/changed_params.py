"""Changes of an env's parameters between two steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.errors import ParameterError, ShapeError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.params import Params


def changed_layout(layout: Layout, changes: Mapping[str, Any], num_worlds: int) -> Layout:
    """Return the layout of an env whose parameters change while it runs.

    A parameter that was given by world stays by world; a number is that of all worlds. Kernels of other parameters read one
    number.

    Args:
        layout: the present layout.
        changes: parameters by name.
        num_worlds: worlds of the env.

    Raises:
        UnknownParameterError: a parameter that the env does not have.
        ShapeError: another number of values than worlds.
        ParameterError: a value out of range, or one that sizes, spaces or the arrays of the env depend on.
    """
    name_of = layout.spec.name
    values = dict(changes)
    for name, present in layout.per_world.items():
        if name in values and np.ndim(values[name]) == 0:
            filled = layout.spec.resolve({**layout.params, name: values[name]})[name]
            values[name] = np.full(num_worlds, filled, present.dtype)
    new = Layout(layout.spec, layout.spec.resolve({**layout.params, **values}))
    for name in new.per_world:
        if name not in layout.per_world:
            advice = "make the env with values by world to change them"
            raise ParameterError(f"{name_of}: {name} is one number for all worlds; {advice}.")
        if new.per_world[name].shape != (num_worlds,):
            got = new.per_world[name].shape
            raise ShapeError(f"{name_of}: {name} must hold one number a world, ({num_worlds},), got {got}.")
    fixed = _fixed(layout)
    for what, value in _fixed(new).items():
        if value != fixed[what]:
            names = ", ".join(changes)
            raise ParameterError(f"{name_of}: set_params() cannot change {what}, as {names} would; make another env.")
    return new


def _fixed(layout: Layout) -> dict[str, Any]:
    """Return the parts of a layout that a running env cannot change, by name for messages: its kernels, arrays and spaces."""
    spec = layout.spec
    return {
        "sizes of its arrays and loops": (layout.sizes, layout.role_counts, layout.by_role),
        "the action space": [group.action for group in layout.groups],
        "the form of observations": [
            (group.observation.shape, None if group.shared is None else group.shared.shape) for group in layout.groups
        ],
        "masks": [(group.masked, group.effects) for group in layout.groups],
        "the state": [layout.state_shape(field, 1) for field in layout.state],
        "workspaces of its kernels": layout.workspaces,
        "launches of its kernels": (
            layout.requested_scratch, layout.requested_lanes, layout.requested_registers, layout.work
        ),
        "the length of a table": {table.name: layout.tables[table.name].shape for table in spec.tables},
    }


def changed_params(original: Params, present: Params) -> dict[str, Any]:
    """Return the present values of the parameters that have changed, by name."""
    return {name: value for name, value in present.items() if not np.array_equal(_plain(value), _plain(original[name]))}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, np.ndarray | int | float | bool) else np.asarray(value)
