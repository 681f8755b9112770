"""Imports of ``gpu_vecenv.envs`` and ``gpu_vecenv.adapters`` from a checkout that was not installed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

MAPPED = ("envs", "adapters")
"""Folders at the top of the repository that are imported as subpackages; pyproject.toml maps them for installs."""


class _CheckoutFinder(MetaPathFinder):
    def __init__(self, root: Path) -> None:
        self._root = root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != "gpu_vecenv" or name not in MAPPED:
            return None
        init = self._root / name / "__init__.py"
        return importlib.util.spec_from_file_location(fullname, init, submodule_search_locations=[str(init.parent)])


def map_checkout(root: Path) -> None:
    """Make imports find the mapped folders of the repository at ``root``, after all other places."""
    sys.meta_path.append(_CheckoutFinder(root))
