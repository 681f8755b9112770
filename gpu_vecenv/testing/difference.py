"""The first difference of two runs, in words: step, world, agent, and the number's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.errors import CheckError

Arrays = dict[str, np.ndarray]
"""Results of one step by name, such as ``obs`` or ``obs.player.shared``, and fields as ``state.NAME``; leading axis worlds."""


def flat(tree: Any, name: str) -> Arrays:
    """Return the arrays of a tree by their path, such as ``obs.player``."""
    if isinstance(tree, Mapping):
        return {path: array for key, part in tree.items() for path, array in flat(part, f"{name}.{key}").items()}
    return {name: np.asarray(tree)}


def first_difference(layout: Layout, left: Arrays, right: Arrays, tolerance: float = 0.0) -> str | None:
    """Return the first number that differs, in words; None if there is none.

    Args:
        layout: that of the env, which tells agents and roles.
        left: arrays by name.
        right: the same names.
        tolerance: largest difference of two floats, absolute for numbers up to 1 and relative for larger ones. 0 compares bits,
            and NaN equals NaN.
    """
    for name, one in left.items():
        two = right[name]
        if one.shape != two.shape:
            return f"{name}: shapes {one.shape} and {two.shape}"
        unequal = differs(one, two, tolerance)
        if unequal.any():
            index = tuple(int(k) for k in np.unravel_index(int(np.argmax(unequal)), unequal.shape))
            return f"{place(layout, name, index)}: {number(one[index])} and {number(two[index])}"
    return None


def differs(one: np.ndarray, two: np.ndarray, tolerance: float) -> np.ndarray:
    """Return where two arrays differ by more than a tolerance. NaN equals NaN."""
    with np.errstate(invalid="ignore"):
        unequal: np.ndarray = one != two
        if tolerance and "f" in (one.dtype.kind, two.dtype.kind):
            wide = one.astype(np.float64), two.astype(np.float64)
            unequal &= ~(np.abs(wide[0] - wide[1]) <= tolerance * np.maximum(1.0, np.abs(wide[0])))
    if "f" == one.dtype.kind == two.dtype.kind:
        unequal &= ~(np.isnan(one) & np.isnan(two))
    return unequal


def number(value: Any) -> str:
    """Return a number as text that tells it from its neighbours."""
    return str(value.item() if isinstance(value, np.bool_ | np.integer) else value)


def place(layout: Layout, name: str, index: Sequence[int]) -> str:
    """Return the words for one number of an array: world, agent, and the name with its index."""
    world, *inner = index
    words, last = [f"world {world}"], name.rpartition(".")[2]
    array, _, of_role = name.partition(".")
    role, _, part = of_role.partition(".")
    if array == "state":
        axes = next((field.extents for field in layout.state if field.name == of_role), ())
        agents = {"num_agents", *(role.count for role in layout.spec.roles if isinstance(role.count, str))}
        if inner and axes and axes[0] in agents:
            words.append(f"agent {inner[0]}")
            inner = inner[1:]
        return f"{', '.join(words)}, state {of_role}{_brackets(inner)}"
    if role in layout.role_counts and array != "episode":
        words += [f"{role} {inner.pop(0)}"] if inner and part != "shared" else []
        last = f"{array} of {role}, {part} part, " if part else array
        return f"{', '.join(words)}, {last.removesuffix(', ')}{_brackets(inner)}{_feature(layout, array, role, part, inner)}"
    if inner and (layout.num_agents > 1 or len(inner) > 1):
        words.append(f"agent {inner.pop(0)}")
    return f"{', '.join(words)}, {name}{_brackets(inner)}{_feature(layout, array, '', '', inner)}"


def _brackets(index: Sequence[int]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def _feature(layout: Layout, array: str, role: str, part: str, index: Sequence[int]) -> str:
    """Return the spec's name of a feature of an observation, behind a space; empty without one."""
    if array not in ("obs", "final_obs") or part == "shared" or len(index) != 1:
        return ""
    named = layout.feature_names.get(role)
    return f" `{named[index[0]]}`" if named else ""


def require_equal(layout: Layout, left: Sequence[Arrays], right: Sequence[Arrays], built: str, tolerance: float = 0.0) -> None:
    """Raise CheckError with the first difference of two runs.

    Args:
        layout: that of the env.
        left: results of the reset, then of each step.
        right: the same.
        built: what distinguishes the second run, such as ``"built with a team of 7"``.
        tolerance: see ``first_difference()``.
    """
    for step, (one, two) in enumerate(zip(left, right, strict=True)):
        difference = first_difference(layout, one, two, tolerance)
        if difference is not None:
            raise CheckError(f"{f'step {step}' if step else 'after the reset'}, {difference}; {built}.")
