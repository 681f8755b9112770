"""Imports of ``gpu_vecenv.envs`` and ``gpu_vecenv.adapters`` from a checkout that was not installed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

from gpu_vecenv.errors import CheckoutError

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


def require_one_copy(init: str) -> None:
    """Check that a mapped package belongs to this copy of gpu_vecenv, and not to another checkout or installation.

    With one checkout on PYTHONPATH and an editable install of another, imports would find ``gpu_vecenv`` in the first and
    ``gpu_vecenv.envs`` in the second, and run kernels of one with code of the other.

    Args:
        init: ``__file__`` of the mapped package. Its folder is beside this package in a checkout, and inside it in a wheel.

    Raises:
        CheckoutError: the folders are those of different copies.
    """
    package, mapped = Path(__file__).parent, Path(init).parent
    places = (package, package.parent)
    if mapped.parent not in places and not any(mapped.parent.samefile(place) for place in places):
        raise CheckoutError(
            f"gpu_vecenv is imported from {package}, and gpu_vecenv.{mapped.name} from {mapped}, which is another copy: install "
            "the one that you want (pip install -e FOLDER), or remove the first from PYTHONPATH and from the working directory."
        )
