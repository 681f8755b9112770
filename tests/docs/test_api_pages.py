"""The API pages show every public name, and no name that does not exist."""

import pkgutil
import re
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import gpu_vecenv
import gpu_vecenv.train
from gpu_vecenv import errors

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "api").glob("*.md"))
NAMED = [name for page in PAGES for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
PUBLIC = [getattr(gpu_vecenv.train, name) for name in gpu_vecenv.train.__all__]
PUBLIC += [getattr(gpu_vecenv, name) for name in gpu_vecenv.__all__]
PUBLIC = [thing for thing in PUBLIC if isinstance(thing, type | FunctionType)] + [errors.GpuVecenvError]


INHERITING = [name for page in PAGES for name in re.findall(r"^::: (\S+)\n    options:\n      inherited_members: true$",
                                                            page.read_text(), re.MULTILINE)]  # fmt: skip


def shown(name):
    """Objects that a directive shows: one object, or those that a module defines."""
    found = pkgutil.resolve_name(name)
    return [o for o in vars(found).values() if getattr(o, "__module__", "") == name] if isinstance(found, ModuleType) else [found]


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_every_public_name_is_shown(thing):
    assert thing in [found for name in NAMED for found in shown(name)]


@pytest.mark.parametrize("name", NAMED)
def test_every_shown_object_has_a_docstring(name):
    assert all(found.__doc__ for found in shown(name))


@pytest.mark.parametrize("name", NAMED)
def test_methods_of_a_base_of_this_package_are_shown_too(name):
    for found in shown(name):
        bases = [base for base in getattr(found, "__mro__", ())[1:] if base.__module__.startswith("gpu_vecenv.")]
        assert name in INHERITING or all(base in shown(base.__module__) and base.__module__ in NAMED for base in bases)


def test_docstrings_have_no_roles_of_sphinx():
    """The site would show them as plain text."""
    files = [file for folder in ("gpu_vecenv", "envs", "adapters") for file in (PAGES[0].parents[2] / folder).rglob("*.py")]
    assert [file.name for file in files if re.search(r":(class|meth|attr|func|mod):`", file.read_text())] == []
