"""Public results: single arrays, or nested dicts of arrays by role."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.validation import abbreviated

Convert = Callable[[Any], Any]
"""From an array to one of another kind."""


def nest(tree: Any, arrays: Any, convert: Convert | None = None) -> Any:
    """Return ``tree`` with ``arrays[leaf]`` in place of each leaf, converted if ``convert`` is given."""
    if isinstance(tree, Mapping):
        return {name: nest(branch, arrays, convert) for name, branch in tree.items()}
    return arrays[tree] if convert is None else convert(arrays[tree])


def flatten(what: str, tree: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each leaf of ``tree`` with the array at its place in ``value``, a tree of the same form.

    Args:
        what: name of ``value`` in messages.
        tree: the form expected.
        value: value of a caller.

    Raises:
        ParameterError: ``value`` has other keys than the tree.
    """
    if isinstance(tree, Mapping):
        for name, part in require_roles(what, value, tree).items():
            yield from flatten(f"{what} of {name}", tree[name], part)
    else:
        yield tree, value


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of nested dicts."""
    if isinstance(tree, Mapping):
        return [leaf for part in tree.values() for leaf in leaves(part)]
    return [tree]


def tree_map(function: Callable[..., Any], tree: Any, *more_trees: Any) -> Any:
    """Return a tree of the same form: ``function`` of the leaves at each place of the trees. Lists and dicts are inner nodes."""
    if isinstance(tree, Mapping):
        return {name: tree_map(function, part, *(more[name] for more in more_trees)) for name, part in tree.items()}
    if isinstance(tree, list):
        return [tree_map(function, *parts) for parts in zip(tree, *more_trees, strict=True)]
    return function(tree, *more_trees)


def converted(arrays: dict[str, Any], convert: Convert | None) -> dict[str, Any]:
    """Return arrays by name, each converted; the same ones without ``convert``."""
    return arrays if convert is None else {name: convert(array) for name, array in arrays.items()}


def require_roles(what: str, value: Any, roles: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``value`` if it is a mapping whose keys are the roles.

    Args:
        what: name of the argument, for messages.
        value: value of a caller.
        roles: mapping whose keys are the roles expected.

    Raises:
        ParameterError: another type, or other keys.
    """
    if not isinstance(value, Mapping) or value.keys() != roles.keys():
        got = abbreviated(list(value)) if isinstance(value, Mapping) else type(value).__name__
        raise ParameterError(f"{what} must be a dict with the keys {', '.join(roles)}, got {got}.")
    return value
