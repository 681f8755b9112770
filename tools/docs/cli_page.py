"""Writes ``docs/api/cli.md`` from the help of ``gpu-vecenv`` and its commands; ``--check`` only says if it is out of date."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import textwrap
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import with_block  # noqa: E402

COMMAND = "python tools/docs/cli_page.py"
DOCUMENT = ROOT / "docs" / "api" / "cli.md"
WIDTH = 80
"""Columns of the help, so that it fits a page."""


def help_text(command: str | None) -> str:
    """The help that ``gpu-vecenv COMMAND --help`` prints on a terminal of WIDTH columns, without colours.

    Raises:
        RuntimeError: the command ended with an error.
    """
    from gpu_vecenv.cli.main import main

    words = ["--help"] if command is None else [command, "--help"]
    plain = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(io.StringIO()) as printed:
        os.environ.pop("FORCE_COLOR", None)
        status = main(words)
    if status:
        raise RuntimeError(f"expected gpu-vecenv {' '.join(words)} to end with 0, got {status}.")
    lines = (line.rstrip() for line in printed.getvalue().strip().splitlines())
    return "\n".join(line for long in lines for line in (wrapped(long) if len(long) > WIDTH else [long]))


def wrapped(line: str) -> list[str]:
    """The lines of one that is longer than WIDTH: tyro wraps options and not the description of a command."""
    hanging = re.match(r"  \w+ +", line)  # a command in the list of commands
    indent = " " * (hanging.end() if hanging else 4 if line.startswith("Example: ") else 0)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def current_text(text: str) -> str:
    """The page ``text`` with the present help of all commands.

    Raises:
        ValueError: the page lacks the markers of the block.
    """
    from gpu_vecenv.cli.main import COMMANDS

    parts = [f"~~~text\n{help_text(None)}\n~~~"]
    parts += [f"## {name}\n\n~~~text\n{help_text(name)}\n~~~" for name in COMMANDS]
    return with_block(text, "cli", COMMAND, "\n\n".join(parts))


def main(arguments: list[str]) -> int:
    """Update the page, or only say if it is out of date; returns the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: cli_page.py [--check]", file=sys.stderr)
        return 2
    text = DOCUMENT.read_text()
    current = current_text(text)
    if current == text:
        return 0
    print(f"stale: {DOCUMENT}")
    if arguments:
        return 1
    DOCUMENT.write_text(current)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
