"""Blocks of a document that a tool writes.

A block starts with the line ``<!-- generated: NAME (COMMAND) -->``, where COMMAND is what writes it, and ends with the line
``<!-- /generated -->``.
"""

from __future__ import annotations

import sys
from pathlib import Path

_END = "<!-- /generated -->"


def with_block(text: str, name: str, command: str, block: str) -> str:
    """The document ``text`` with the content of its block ``name`` replaced by ``block``.

    Raises:
        ValueError: the document does not hold the two markers of the block exactly once.
    """
    start = f"<!-- generated: {name} ({command}) -->"
    before, opening, remainder = text.partition(start)
    _, ended, after = remainder.partition(_END)
    if not opening or not ended or start in remainder:
        raise ValueError(f"expected {start} once in the document and {_END} after it.")
    return f"{before}{start}\n{block.strip()}\n{_END}{after}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def short_commit(commit: str) -> str:
    """A recorded commit with 8 digits at most, and its ``-dirty`` if the files differed from it."""
    digits, dash, state = commit.partition("-")
    return f"{digits[:8]}{dash}{state}"


def update_page(page: Path, text: str, arguments: list[str]) -> int:
    """Write the text of a page, or with ``--check`` only say if the page is out of date.

    Args:
        page: the file.
        text: its text with blocks of the present results.
        arguments: those of the command line, none or ``--check``.

    Returns:
        The exit status.
    """
    if arguments not in ([], ["--check"]):
        print(f"usage: {Path(sys.argv[0]).name} [--check]", file=sys.stderr)
        return 2
    stale = page.read_text() != text
    if stale:
        print(f"stale: {page.name}")
        if not arguments:
            page.write_text(text)
    return 1 if arguments and stale else 0
