"""Pickles of specs: the place of the spec in a module, because specs hold functions without names."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import cloudpickle

from gpu_vecenv.errors import CopyError

_MAIN = ("__main__", "__mp_main__")
"""Names of the module that Python runs, which another process may lack."""


def reduce_spec(spec: Any, fields: Mapping[str, Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function and its arguments that give the spec back, as ``__reduce__`` does.

    A spec that is a global variable of a module is imported from there. Any other, such as one of a notebook, is pickled with its
    functions, by cloudpickle.

    Args:
        spec: the spec.
        fields: its fields by name.

    Raises:
        CopyError: a field cannot be pickled.
    """
    place = _find(spec)
    if place is not None:
        return _import_spec, (*place, spec.name)
    try:
        return _make_spec, (type(spec), cloudpickle.dumps(dict(fields)))
    except (TypeError, pickle.PicklingError) as error:
        raise CopyError(f"{spec.name}: the spec is no global variable of a module, and it cannot be pickled: {error}.") from error


def _find(spec: Any) -> tuple[str, str] | None:
    """Return the names of a module and of its global variable that is the spec; None if there is none.

    Several modules may import the spec. One beside the kernel is preferred, because it defines the spec.
    """
    modules = [
        (name, variables)
        for name, module in list(sys.modules.items())
        if name not in _MAIN and (variables := getattr(module, "__dict__", None))
    ]
    folder = str(spec.kernel.parent)
    beside = [(name, variables) for name, variables in modules if _folder(variables) == folder]
    for name, variables in beside + modules:  # those beside the kernel first: all have half a million variables
        for variable, value in list(variables.items()):
            if value is spec:
                return name, variable
    return None


def _folder(variables: Mapping[str, Any]) -> str | None:
    """Return the folder of a module's file; None if it has none."""
    file = variables.get("__file__")
    return os.path.dirname(file) if isinstance(file, str) else None


def _import_spec(module: str, variable: str, name: str) -> Any:
    """Return the spec called ``name`` from a module.

    Raises:
        CopyError: there is no such module or variable, or it is another object.
    """
    try:
        spec = getattr(import_module(module), variable)
    except (ImportError, AttributeError) as error:
        raise CopyError(f"{name}: its spec was pickled as {module}.{variable}, which this process lacks: {error}.") from error
    if getattr(spec, "name", None) != name:
        raise CopyError(f"{name}: its spec was pickled as {module}.{variable}, which is now another object, {spec!r}.")
    return spec


def _make_spec(kind: Callable[..., Any], fields: bytes) -> Any:
    return kind(**pickle.loads(fields))
