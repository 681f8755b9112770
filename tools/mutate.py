"""Mutation testing: applies mutants one at a time and says which test notices each: ``python tools/mutate.py [NAME ...]``.

Without names it applies all. ``tools/mutants.toml`` holds them: a text that occurs once in a file, its replacement, and the tests
that should notice. Each is applied to a copy of the checkout. Tools that make up mutants know one language (mutmut and cosmic-ray
Python, Mull compiled C++), and half of these are in kernels that are compiled at run time.

Exit status: 0 where every mutant is noticed, 1 where one survives, 2 where the table does not fit the files, or tests fail
without a mutation. A mutant whose tests need a library that is not installed is not applied.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("mutants.toml")
COPIED = ("gpu_vecenv", "envs", "adapters", "tests", "tools", "examples", "pyproject.toml", "README.md")


class MutationError(Exception):
    """Nothing can be said of a mutant."""


@dataclass(frozen=True)
class Mutant:
    """One entry of the table."""

    name: str
    file: str
    text: str
    replacement: str
    tests: list[str]
    needs: str | None = None
    """A module without which the tests are skipped."""


def load(table: Path = TABLE) -> dict[str, Mutant]:
    """The mutants by name."""
    return {name: Mutant(name, **entry) for name, entry in tomllib.loads(table.read_text()).items()}


def misfits(mutants: Iterable[Mutant], root: Path) -> list[str]:
    """Reasons why mutants cannot be applied to the files under ``root``, a line each."""
    found = []
    for mutant in mutants:
        file = root / mutant.file
        count = file.read_text().count(mutant.text) if file.is_file() else 0
        if count != 1:
            found.append(f"{mutant.name}: expected its text once in {mutant.file}, got it {count} times")
        elif mutant.text == mutant.replacement:
            found.append(f"{mutant.name}: expected another text as replacement, got the same")
        for test in mutant.tests:
            path, _, name = test.partition("::")
            if not (root / path).exists() or name and f"def {name}(" not in (root / path).read_text():
                found.append(f"{mutant.name}: expected tests as {test}, got none")
    return found


def copy_checkout(tree: Path, root: Path = ROOT) -> None:
    """Copy what tests need into a new folder."""
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).is_file():
            shutil.copy(root / name, tree / name)
    for name in ("envs", "adapters"):
        if (tree / "gpu_vecenv").is_dir():  # else an editable install would find those of the checkout first
            (tree / "gpu_vecenv" / name).symlink_to(tree / name)


def first_failure(tree: Path, tests: list[str]) -> str | None:
    """The test of these that fails first in the tree, or the exit status of pytest if it names none; None if all pass."""
    # `.pyc` files are told apart by the second and would go stale.
    caches = {"GPU_VECENV_CACHE_DIR": str(tree / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    path = os.pathsep.join([str(tree), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tree, env={**os.environ, **caches, "PYTHONPATH": path}, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    named = [line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return named[0].partition(" - ")[0] if named else f"exit status {done.returncode}"


def noticed_by(mutant: Mutant, tree: Path) -> str | None:
    """Apply a mutant, run its tests, and take it out again; returns what ``first_failure()`` does."""
    file = tree / mutant.file
    text = file.read_text()
    file.write_text(text.replace(mutant.text, mutant.replacement))
    try:
        return first_failure(tree, mutant.tests)
    finally:
        file.write_text(text)


def mutate(mutants: list[Mutant], root: Path = ROOT) -> list[str]:
    """Apply mutants one after the other and print who noticed.

    Returns:
        Names of those that nobody noticed.

    Raises:
        MutationError: a text that is not in its file, or tests that fail without a mutation.
    """
    if found := misfits(mutants, root):
        raise MutationError("\n".join(found))
    survivors, sound = [], set[tuple[str, ...]]()
    print("| mutant | noticed by | seconds |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutate") as folder:
        tree = Path(folder)
        copy_checkout(tree, root)
        for mutant in mutants:
            if mutant.needs and importlib.util.find_spec(mutant.needs) is None:
                print(f"| {mutant.name} | not applied: needs {mutant.needs} | |", flush=True)
                continue
            if tuple(mutant.tests) not in sound and (test := first_failure(tree, mutant.tests)):
                raise MutationError(f"{mutant.name}: expected tests that pass without a mutation, got a failure: {test}")
            sound.add(tuple(mutant.tests))
            start = time.perf_counter()
            test = noticed_by(mutant, tree)
            print(f"| {mutant.name} | {test or 'nobody'} | {time.perf_counter() - start:.0f} |", flush=True)
            survivors += [] if test else [mutant.name]
    return survivors


def main(arguments: list[str]) -> int:
    """Apply the mutants named, or all; returns the exit status."""
    mutants = load()
    parser = argparse.ArgumentParser(description="Apply mutants and see which test notices.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants of tools/mutants.toml; all by default")
    names = parser.parse_args(arguments).names
    if unknown := [name for name in names if name not in mutants]:
        parser.error(f"expected names of {TABLE.name}, got {', '.join(unknown)}")
    try:
        survivors = mutate([mutants[name] for name in names or mutants])
    except MutationError as error:
        print(error, file=sys.stderr)
        return 2
    if survivors:
        print(f"nobody noticed {', '.join(survivors)}", file=sys.stderr)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
