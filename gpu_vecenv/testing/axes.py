"""Indices of the state that a hook makes of several axes, such as ``y * width + x``: x = -1 is an element of the row above."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.conflicts import Problem
from gpu_vecenv.testing.kernel_text import block_end, functions_of

ALIAS = re.compile(r"\bauto\s*&\s*(\w+)\s*=\s*w\.state\s*;")
"""A name for the state in a function."""


def joined_axes(text: str, layout: Layout) -> Iterator[Problem]:
    """Yield the indices that join several axes in a sum, such as ``y * width + x``.

    No check can tell x = -1 in such an index from the last element of the row above. ``w.at`` has an index for each axis.

    Args:
        text: text of hooks in C++, without comments.
        layout: that of the env, whose spec has the axes of the fields.
    """
    spec = layout.spec
    fields = {field.name: field for field in spec.state if field.extents and not field.names}
    for function in functions_of(text).values():
        aliases = ALIAS.findall(text, function.start, function.end)
        states = "|".join(["w\\.state", *aliases])
        for access in re.compile(rf"(?<![\w.])(?:{states})\.(\w+)\s*\[").finditer(text, function.start, function.end):
            field = fields.get(access[1])
            if field is None or not _is_joined(text[access.end() : block_end(text, access.end() - 1) - 1]):
                continue
            by_axes = f"w.at.{field.name}{'[i, j]' if spec.kernel.suffix == '.py' else '(i, j)'}"
            axes = f"which has the axes ({', '.join(map(str, field.extents))})"
            declared = axes if len(field.extents) > 1 else "and declare the axes in the spec"
            said = f"the index of `w.state.{field.name}` joins those of several axes, so no check sees a wrong one"
            yield access.start(), f"{said}; write `{by_axes}`, {declared}"


def _is_joined(index: str) -> bool:
    """Return True for a sum of a product and of a term that is not a plain number. ``2 * k + 1`` is an element of row k."""
    terms = _terms(index)
    products = [term for _, term in terms if "*" in _outside_brackets(term)]
    rest = [term for sign, term in terms if term not in products and (sign == "-" or not term.isdecimal())]
    return bool(products and rest)


def _terms(index: str, sign: str = "+") -> list[tuple[str, str]]:
    """Return the signs and the terms of a sum, also of sums in brackets. ``sign`` stands before the first term."""
    index = index.strip()
    while index.startswith("(") and block_end(index, 0) == len(index):
        index = index[1:-1].strip()
    places = [match.start() for match in re.finditer(r"(?<=[\w)\] ])[+-]", _outside_brackets(index))]
    if not places:
        return [(sign, index)]
    starts, ends = [0, *(place + 1 for place in places)], [*places, len(index)]
    signs = [sign, *(index[place] for place in places)]
    return [term for of, start, end in zip(signs, starts, ends, strict=True) for term in _terms(index[start:end], of)]


def _outside_brackets(text: str) -> str:
    """Return the text with spaces in place of what stands in brackets."""
    depth, letters = 0, []
    for letter in text:
        depth -= letter in ")]"
        letters.append(" " if depth else letter)
        depth += letter in "(["
    return "".join(letters)
