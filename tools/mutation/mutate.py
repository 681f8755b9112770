"""Mutation testing: ``python tools/mutation/mutate.py [NAME ...]`` applies mutants, all by default, and prints which test fails.

A mutant is a wrong change that must make a test fail. ``mutants.toml`` holds them: a text that occurs once in a file, its
replacement, and the tests that should fail. Each mutant is applied alone, to a copy of the checkout. The mutants are written by
hand because tools that generate mutants know one language (mutmut and cosmic-ray Python, Mull compiled C++), and half of the
mutants here change kernels, which are compiled at run time.

Exit status: 0 if a test noticed every mutant; 1 if a mutant survived; 2 if the table does not fit the files or a test fails
without a mutant. A mutant is not applied if its tests need a library that is not installed.
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

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("mutants.toml")
COPIED = ("gpu_vecenv", "envs", "adapters", "tests", "tools", "examples", "docs", "pyproject.toml", "README.md")


class MutationError(Exception):
    """The table does not fit the files, or a test fails without a mutant."""


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
    reasons = []
    for mutant in mutants:
        file = root / mutant.file
        count = file.read_text().count(mutant.text) if file.is_file() else 0
        if count != 1:
            reasons.append(f"{mutant.name}: expected its text once in {mutant.file}, got it {count} times")
        elif mutant.text == mutant.replacement:
            reasons.append(f"{mutant.name}: expected another text as replacement, got the same")
        for test in mutant.tests:
            path, _, name = test.partition("::")
            if not (root / path).exists() or name and f"def {name}(" not in (root / path).read_text():
                reasons.append(f"{mutant.name}: expected tests as {test}, got none")
    return reasons


def copy_checkout(tree: Path, root: Path = ROOT) -> None:
    """Copy what tests need into a new folder."""
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).is_file():
            shutil.copy(root / name, tree / name)
    for name in ("envs", "adapters"):
        if (tree / "gpu_vecenv").is_dir():  # an editable install would otherwise find the folders of the checkout first
            (tree / "gpu_vecenv" / name).symlink_to(tree / name)


def first_failure(tree: Path, tests: list[str]) -> str | None:
    """Name of the first of ``tests`` that fails in the tree, or pytest's exit status if it names none; None if all pass."""
    # Python compares the times of `.pyc` files in whole seconds, so two mutants within a second would share one.
    caches = {"GPU_VECENV_CACHE_DIR": str(tree / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    path = os.pathsep.join([str(tree), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tree, env={**os.environ, **caches, "PYTHONPATH": path}, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    named = [line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return named[0].partition(" - ")[0] if named else f"exit status {done.returncode}"


def noticed_by(mutant: Mutant, tree: Path) -> str | None:
    """Apply a mutant, run its tests and restore the file; returns the result of ``first_failure()``."""
    file = tree / mutant.file
    text = file.read_text()
    file.write_text(text.replace(mutant.text, mutant.replacement))
    try:
        return first_failure(tree, mutant.tests)
    finally:
        file.write_text(text)


def mutate(mutants: list[Mutant], root: Path = ROOT) -> list[str]:
    """Apply mutants one after the other and print which test noticed each.

    Returns:
        Names of the mutants that no test noticed.

    Raises:
        MutationError: a text is not in its file, or a test fails without a mutant.
    """
    if reasons := misfits(mutants, root):
        raise MutationError("\n".join(reasons))
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
            print(f"| {mutant.name} | {test or 'no test'} | {time.perf_counter() - start:.0f} |", flush=True)
            survivors += [] if test else [mutant.name]
    return survivors


def main(arguments: list[str]) -> int:
    """Apply the mutants named, or all; returns the exit status."""
    mutants = load()
    parser = argparse.ArgumentParser(description="Apply mutants and print which test notices each.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants of tools/mutation/mutants.toml; all by default")
    names = parser.parse_args(arguments).names
    if unknown := [name for name in names if name not in mutants]:
        parser.error(f"expected names of {TABLE.name}, got {', '.join(unknown)}")
    try:
        survivors = mutate([mutants[name] for name in names or mutants])
    except MutationError as error:
        print(error, file=sys.stderr)
        return 2
    if survivors:
        print(f"no test noticed {', '.join(survivors)}", file=sys.stderr)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
