"""Writes the generated tables of every env's README.md from its spec; ``--check`` only lists files that are out of date."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import with_block  # noqa: E402

COMMAND = "python tools/docs/env_tables.py"


def current_text(readme: Path) -> str:
    """An env's README with tables of its present spec between the markers.

    Raises:
        ValueError: the file lacks the markers of the block.
    """
    from gpu_vecenv.spec.header import docs_tables

    spec = import_module(f"gpu_vecenv.envs.{readme.parent.name}.spec").SPEC
    return with_block(readme.read_text(), "tables", COMMAND, docs_tables(spec))


def readmes() -> list[Path]:
    """README.md of every env folder."""
    return sorted(path.with_name("README.md") for path in (ROOT / "envs").glob("*/spec.py"))


def main(arguments: list[str]) -> int:
    """Update the files, or only list those out of date; returns the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: env_tables.py [--check]", file=sys.stderr)
        return 2
    stale = [readme for readme in readmes() if readme.read_text() != current_text(readme)]
    for readme in stale:
        print(f"stale: {readme.relative_to(ROOT)}")
        if not arguments:
            readme.write_text(current_text(readme))
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
