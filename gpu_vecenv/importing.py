"""Imports of many modules, and of modules at the first use of a name."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector. Use it around imports.

    The objects of modules stay. The collector looks through them again and again and finds nothing to free, which takes a sixth
    of the time in which PyTorch is imported.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def at_first_use(
    package: str, public: Mapping[str, Sequence[str]], submodules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports each of its public names at its first use.

    Args:
        package: name of the package.
        public: public names by the module of the package that defines them.
        submodules: public modules of the package.
    """
    modules = {name: f"{package}.{module}" for module, names in public.items() for name in names}

    def get(name: str) -> Any:
        if name in submodules:
            return importlib.import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with collector_paused():
            return getattr(importlib.import_module(modules[name]), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *submodules})

    return get, names
