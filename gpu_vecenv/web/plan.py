"""Plans: all that ``worlds.js`` needs to allocate an env's arrays and to fill the argument struct of its kernels, as JSON."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gpu_vecenv.spec.struct import output_members
from gpu_vecenv.vector.inputs.actions import random_ranges
from gpu_vecenv.vector.inputs.autoreset import KERNEL_MODE
from gpu_vecenv.vector.outputs.results import Results, dtype_of, previous_member
from gpu_vecenv.vector.outputs.views import View
from gpu_vecenv.vector.worlds.arguments import role_rows
from gpu_vecenv.vector.worlds.state import OWN_KEYS

Json = dict[str, Any]


def make_plan(view: View, autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP) -> Json:
    """Return the plan of the worlds of a view.

    Its keys:

    - ``env``, ``worlds``, ``agents``: name of the spec, worlds, agents in a world.
    - ``bytes``, ``members``: size of the argument struct; offset and dtype of each member.
    - ``numbers``: values of the members that are numbers.
    - ``arrays``: arrays by the member that has their address: dtype, shape, and ``data``, the values in base64, or ``fill``.
    - ``outputs``: the same for the arrays of a step in the order of ``Results``, each with the ``members`` that have its address.
    - ``state``: names of the state fields; they are arrays.
    - ``groups``: of each group, the ``prefix`` of its members, and ``draws``, True if its actions can be drawn.
    """
    layout, results = view.layout, Results(view, autoreset_mode is AutoresetMode.SAME_STEP)
    groups = layout.groups
    return {
        "env": layout.spec.name,
        "worlds": view.num_worlds,
        "agents": layout.num_agents,
        "bytes": layout.dtype.itemsize,
        "members": {name: [offset, str(dtype)] for name, (dtype, offset, *_) in (layout.dtype.fields or {}).items()},
        "numbers": {
            **layout.scalars,
            **role_rows(layout, view),
            **{f"{group.prefix}action_type": 4 for group in groups},
            "num_worlds": view.num_worlds,
            "autoreset": KERNEL_MODE[autoreset_mode],
            "agents_view": int(view.by_agent and layout.num_agents > 1),
            "fork_world": -1,
        },
        "arrays": _arrays(view),
        "outputs": _outputs(view, results),
        "state": [field.name for field in layout.state],
        "groups": [
            {"prefix": group.prefix, "draws": bool(np.isfinite(random_ranges(group)["action_bounds"]).all())} for group in groups
        ],
    }


def _arrays(view: View) -> Json:
    """Return the arrays that are no outputs, by member."""
    layout, worlds = view.layout, view.num_worlds
    arrays: Json = {}
    for field in layout.state:
        arrays[field.name] = _empty(field.dtype, layout.state_shape(field, worlds), -1 if field.name == "pool_entry" else 0)
    for name, (shape, dtype, fill) in layout.workspaces.items():
        arrays[name] = _empty(dtype, (worlds, *shape), fill)
    arrays |= {name: filled(values) for name, values in layout.tables.items()}
    arrays |= {f"{name}_by_world": filled(values) for name, values in layout.by_world.items()}
    for group in layout.groups:
        dtype, lead = "float32" if group.continuous else "int32", view.group_lead(group)
        arrays[f"{group.prefix}action"] = _empty(dtype, lead + (group.action.shape or ()))
        arrays |= {f"{group.prefix}{name}": filled(values) for name, values in random_ranges(group).items()}
    options = [option.default for option in layout.spec.reset_options] or [0.0]
    return arrays | {
        "shared_key": filled(np.array([0, OWN_KEYS], np.uint64)),
        "reset_bounds": filled(np.array(options, np.float32)),
        "reset_mask": _empty("uint8", (worlds,)),
        "copy_source": _empty("int32", (worlds,), -1),
        **{name: _empty("int32", (1,)) for name in ("may_be_finished", "pool_size", "invalid_actions")},
        **{name: _empty("uint64", (len(layout.state),)) for name in ("pool_fields", "copy_fields")},
    }


def _outputs(view: View, results: Results) -> Json:
    """Return the arrays of a step. An array that the next step reads is the previous one of that step, too."""
    outputs: Json = {name: {**_empty(dtype_of(name), shape), "members": []} for name, shape in results.shapes.items()}
    names = list(results.shapes)
    for member in output_members(view.layout.spec):
        if (name := member.removeprefix("out_")) in results.indices:
            outputs[names[results.indices[name]]]["members"].append(member)
    for name in results.carried:
        outputs[name]["previous"] = previous_member(name)
    return outputs


def _empty(dtype: str, shape: tuple[int, ...], fill: int = 0) -> Json:
    return {"dtype": dtype, "shape": list(shape), **({"fill": fill} if fill else {})}


def filled(values: np.ndarray) -> Json:
    """Return an array with its values. Base64 keeps every bit, also of infinite numbers, which JSON has not."""
    little_endian = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return {"dtype": str(values.dtype), "shape": list(values.shape), "data": base64.b64encode(little_endian.tobytes()).decode()}
