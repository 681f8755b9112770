"""Parameters that a page's player may change while worlds run, with all that changes with each of their values.

Python computes constants, tables and pictures for some values of each parameter, so the page has the bits of
``GpuVectorEnv.set_params()`` and knows no formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.render.scene_renderer import SceneRenderer
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.params import LARGEST, Param
from gpu_vecenv.vector.env.changed_params import changed_layout
from gpu_vecenv.web.page_data import pictures_of, renderer_kind
from gpu_vecenv.web.plan import Json, filled

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Values of a slider, as multiples of the present one."""

MOST_NUMBERS = 256
"""Most numbers of tables that change with a value; a parameter that changes more has no slider."""


def sliders(layout: Layout) -> list[Json]:
    """Return a slider for each parameter that may change while an env runs.

    Each has the ``name``, ``doc`` and ``unit`` of its parameter, its ``values``, the index ``at`` of the present one, and for
    each value the ``changes``: members of the argument struct in ``numbers``, tables in ``arrays``, and in ``pictures`` the
    leaves of the pictures by their places in the order of the data.
    """
    kind = renderer_kind(layout)
    pictures = leaves(pictures_of(layout, kind))
    possible = (_slider(layout, param, kind, pictures) for param in layout.spec.kernel_params)
    return [slider for slider in possible if slider is not None]


def _slider(layout: Layout, param: Param, kind: type[SceneRenderer] | None, pictures: list[Any]) -> Json | None:
    """Return the slider of a parameter; None if it cannot change while an env runs, or has no other value."""
    present, values, changes = layout.params[param.name], [], []
    for value in _values(param, present):
        try:
            changed = changed_layout(layout, {param.name: value}, 1)
            drawn = leaves(pictures_of(changed, kind))
        except (GpuVecenvError, ValueError, ArithmeticError):  # out of range beside the others, or sizes depend on it
            continue
        if (change := _change(layout, changed, pictures, drawn)) is not None:
            values.append(changed.params[param.name])
            changes.append(change)
    if present not in values or len(values) < 2 or not any(change["numbers"] for change in changes):
        return None
    facts = {"name": param.name, "doc": param.doc, "unit": param.unit}
    return {**facts, "values": values, "at": values.index(present), "changes": changes}


def _values(param: Param, present: Any) -> list[Any]:
    """Return values around the present one, in order; for a present 0 from bound to bound."""
    if isinstance(present, bool):
        return [False, True]
    if not isinstance(present, int | float):
        return []
    if present:
        values = [min(max(present * factor, param.low), param.high) for factor in FACTORS]
    elif -LARGEST < param.low and param.high < LARGEST:
        values = [0, *np.linspace(param.low, param.high, len(FACTORS)).tolist()]
    else:
        return []
    return sorted({round(value) if param.dtype == "int32" else float(f"{value:.6g}") for value in values} | {present})


def _change(layout: Layout, changed: Layout, pictures: list[Any], drawn: list[Any]) -> Json | None:
    """Return what differs in the layout of another value; None if pictures have another form or tables change in many numbers."""
    scalars = {name: value for name, value in changed.scalars.items() if value != layout.scalars[name]}
    tables = {name: values for name, values in changed.tables.items() if not np.array_equal(values, layout.tables[name])}
    if len(drawn) != len(pictures) or sum(values.size for values in tables.values()) > MOST_NUMBERS:
        return None
    pairs = enumerate(zip(pictures, drawn, strict=True))
    return {
        "numbers": scalars,
        "arrays": {name: filled(values) for name, values in tables.items()},
        "pictures": [[place, new] for place, (old, new) in pairs if old != new],
    }


def leaves(json: Json) -> list[Any]:
    """Return the numbers, texts and other single values of data, in its order; ``page.js`` counts them in the same way."""
    single: list[Any] = []

    def walk(part: Any) -> None:
        if isinstance(part, dict | list):
            for each in part.values() if isinstance(part, dict) else part:
                walk(each)
        else:
            single.append(part)

    walk(json)
    return single
