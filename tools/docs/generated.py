"""Blocks of a document that a tool writes.

A block starts with the line ``<!-- generated: NAME (COMMAND) -->``, where COMMAND is what writes it, and ends with the line
``<!-- /generated -->``.
"""

from __future__ import annotations

_END = "<!-- /generated -->"


def with_block(text: str, name: str, command: str, block: str) -> str:
    """The document ``text`` with the content of its block ``name`` replaced by ``block``.

    Raises:
        ValueError: the document does not hold the two markers of the block exactly once.
    """
    start = f"<!-- generated: {name} ({command}) -->"
    before, found, rest = text.partition(start)
    _, ended, after = rest.partition(_END)
    if not found or not ended or start in rest:
        raise ValueError(f"expected {start} once in the document and {_END} after it.")
    return f"{before}{start}\n{block.strip()}\n{_END}{after}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
