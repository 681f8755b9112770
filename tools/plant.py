"""Plants mistakes one at a time and says which test notices each: ``python tools/plant.py [NAME ...]``, by default all.

``tools/mistakes.toml`` holds the mistakes: a text that occurs once in a file, what is planted in its place, and the tests that
should notice. Each is planted in a copy of the checkout. Tools that make up mistakes know one language (mutmut and cosmic-ray
Python, Mull compiled C++), and half of these are in kernels that are compiled at run time.

Exit status: 0 where every mistake is noticed, 1 where one survives, 2 where the table does not fit the files, or tests fail
without a mistake. A mistake whose tests need a library that is not installed is not planted.
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
TABLE = Path(__file__).with_name("mistakes.toml")
KEPT = ("gpu_vecenv", "envs", "adapters", "tests", "tools", "examples", "pyproject.toml", "README.md")


class PlantError(Exception):
    """Nothing can be said of a mistake."""


@dataclass(frozen=True)
class Mistake:
    """One entry of the table."""

    name: str
    file: str
    text: str
    planted: str
    tests: list[str]
    needs: str | None = None
    """A module without which the tests are skipped."""


def load(table: Path = TABLE) -> dict[str, Mistake]:
    """The mistakes by name."""
    return {name: Mistake(name, **entry) for name, entry in tomllib.loads(table.read_text()).items()}


def misfits(mistakes: Iterable[Mistake], root: Path) -> list[str]:
    """What keeps mistakes from being planted in the files under ``root``, a line each."""
    found = []
    for mistake in mistakes:
        file = root / mistake.file
        count = file.read_text().count(mistake.text) if file.is_file() else 0
        if count != 1:
            found.append(f"{mistake.name}: expected its text once in {mistake.file}, got it {count} times")
        elif mistake.text == mistake.planted:
            found.append(f"{mistake.name}: expected another text to plant, got the same")
        for test in mistake.tests:
            path, _, name = test.partition("::")
            if not (root / path).exists() or name and f"def {name}(" not in (root / path).read_text():
                found.append(f"{mistake.name}: expected tests as {test}, got none")
    return found


def copy_checkout(tree: Path, root: Path = ROOT) -> None:
    """Copy what tests need into a new folder."""
    for name in KEPT:
        if (root / name).is_dir():
            shutil.copytree(root / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).is_file():
            shutil.copy(root / name, tree / name)
    for name in ("envs", "adapters"):
        if (tree / "gpu_vecenv").is_dir():  # else an editable install would find those of the checkout first
            (tree / "gpu_vecenv" / name).symlink_to(tree / name)


def first_failure(tree: Path, tests: list[str]) -> str | None:
    """The test of these that fails first in the tree, or the exit status of pytest if it names none; None if all pass."""
    caches = {"GPU_VECENV_CACHE_DIR": str(tree / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}  # of two texts of one second
    path = os.pathsep.join([str(tree), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tree, env={**os.environ, **caches, "PYTHONPATH": path}, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    named = [line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return named[0].partition(" - ")[0] if named else f"exit status {done.returncode}"


def noticed_by(mistake: Mistake, tree: Path) -> str | None:
    """Plant a mistake, run its tests, and take it out again; returns what ``first_failure()`` does."""
    file = tree / mistake.file
    text = file.read_text()
    file.write_text(text.replace(mistake.text, mistake.planted))
    try:
        return first_failure(tree, mistake.tests)
    finally:
        file.write_text(text)


def plant(mistakes: list[Mistake], root: Path = ROOT) -> list[str]:
    """Plant mistakes one after the other and print who noticed.

    Returns:
        Names of those that nobody noticed.

    Raises:
        PlantError: a text that is not in its file, or tests that fail without a mistake.
    """
    if found := misfits(mistakes, root):
        raise PlantError("\n".join(found))
    survivors, sound = [], set[tuple[str, ...]]()
    print("| mistake | noticed by | seconds |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="plant") as folder:
        tree = Path(folder)
        copy_checkout(tree, root)
        for mistake in mistakes:
            if mistake.needs and importlib.util.find_spec(mistake.needs) is None:
                print(f"| {mistake.name} | not planted: needs {mistake.needs} | |", flush=True)
                continue
            if tuple(mistake.tests) not in sound and (test := first_failure(tree, mistake.tests)):
                raise PlantError(f"{mistake.name}: expected tests that pass without a mistake, got a failure: {test}")
            sound.add(tuple(mistake.tests))
            start = time.perf_counter()
            test = noticed_by(mistake, tree)
            print(f"| {mistake.name} | {test or 'nobody'} | {time.perf_counter() - start:.0f} |", flush=True)
            survivors += [] if test else [mistake.name]
    return survivors


def main(arguments: list[str]) -> int:
    """Plant the mistakes named, or all; returns the exit status."""
    mistakes = load()
    parser = argparse.ArgumentParser(description="Plant mistakes and see which test notices.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mistakes of tools/mistakes.toml; all by default")
    names = parser.parse_args(arguments).names
    if unknown := [name for name in names if name not in mistakes]:
        parser.error(f"expected names of {TABLE.name}, got {', '.join(unknown)}")
    try:
        survivors = plant([mistakes[name] for name in names or mistakes])
    except PlantError as error:
        print(error, file=sys.stderr)
        return 2
    if survivors:
        print(f"nobody noticed {', '.join(survivors)}", file=sys.stderr)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
