"""Public results: single arrays, or nested dicts of arrays by role."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpu_vecenv.vector.role_actions import require_roles

Convert = Callable[[Any], Any]
"""From an array to one of another kind."""


def nest(tree: Any, arrays: Any, convert: Convert | None = None) -> Any:
    """Return ``tree`` with ``arrays[leaf]`` in place of each leaf, converted if ``convert`` is given."""
    if isinstance(tree, Mapping):
        return {name: nest(branch, arrays, convert) for name, branch in tree.items()}
    return arrays[tree] if convert is None else convert(arrays[tree])


def flatten(what: str, tree: Any, given: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each leaf of ``tree`` with the array at its place in ``given``, a tree of the same form.

    Args:
        what: name of ``given`` in messages.
        tree: the form expected.
        given: value of a caller.

    Raises:
        ParameterError: ``given`` has other keys than the tree.
    """
    if isinstance(tree, Mapping):
        for name, part in require_roles(what, given, tree).items():
            yield from flatten(f"{what} of {name}", tree[name], part)
    else:
        yield tree, given


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of nested dicts."""
    if isinstance(tree, Mapping):
        return [leaf for part in tree.values() for leaf in leaves(part)]
    return [tree]


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Return a tree of the same form: ``function`` of the leaves at each place of the trees. Lists and dicts are inner nodes."""
    if isinstance(tree, Mapping):
        return {name: tree_map(function, part, *(other[name] for other in others)) for name, part in tree.items()}
    if isinstance(tree, list):
        return [tree_map(function, *parts) for parts in zip(tree, *others, strict=True)]
    return function(tree, *others)


def converted(arrays: dict[str, Any], convert: Convert | None) -> dict[str, Any]:
    """Return arrays by name, each converted; the same ones without ``convert``."""
    return arrays if convert is None else {name: convert(array) for name, array in arrays.items()}
