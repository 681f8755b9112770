"""Blocks of a document that a tool writes: what stands between ``<!-- generated: NAME -->`` and ``<!-- end generated -->``."""

from __future__ import annotations

_END = "<!-- end generated -->"


def with_block(text: str, name: str, block: str) -> str:
    """The document ``text`` with its block ``name`` replaced.

    Raises:
        ValueError: the document has no such block, or two.
    """
    start = f"<!-- generated: {name} -->"
    before, found, rest = text.partition(start)
    _, ended, after = rest.partition(_END)
    if not found or not ended or start in rest:
        raise ValueError(f"the document must hold {start} and, after it, {_END} once.")
    return f"{before}{start}\n{block.strip()}\n{_END}{after}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
