"""Conversions of a float to an integer and back, which GCC makes one instruction that gives -0 where a GPU gives 0."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_vecenv.testing.kernel_text import paren_end

REASON = (
    "is -0 on the CPU for a float above -1 and not positive, where a GPU gives 0; write gv_float_of((gv_i32)x), "
    "or leave out the inner cast if x is an integer"
)

_WORDS = r"(?:signed|unsigned|char|short|int|long)"
_INTEGER = rf"(?:gv_[iu](?:8|16|32|64)|(?:std::)?u?int(?:8|16|32|64)_t|{_WORDS}(?:\s+{_WORDS})*)"
_TO_FLOAT = re.compile(r"\(\s*float\s*\)\s*|\b(?:float|static_cast\s*<\s*float\s*>)\s*(?=\()")
_BEFORE = re.compile(rf"\(\s*{_INTEGER}\s*\)(?=\s*[\w(+*~-])")
_AROUND = re.compile(rf"(?:\b{_INTEGER}|static_cast\s*<\s*{_INTEGER}\s*>)\s*(?=\()")
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


def joined_casts(text: str) -> Iterator[tuple[int, str]]:
    """Yield position and message of each cast to float of a cast to an integer, in any of the forms of C++.

    Args:
        text: the text without comments.
    """
    for cast in _TO_FLOAT.finditer(text):
        before = cast[0].startswith("(")
        bare = before and (_BEFORE.match(text, cast.end()) or _AROUND.match(text, cast.end()))
        in_parens = text[cast.end() : cast.end() + 1] == "("
        if bare or in_parens and _is_cast(text[cast.end() + 1 : paren_end(text, cast.end()) - 1].strip()):
            yield cast.start(), f"`{cast[0].strip()}` of a cast to an integer {REASON}"


def _is_cast(text: str) -> bool:
    """Return True if an expression is a cast to an integer and nothing else."""
    if (around := _AROUND.match(text)) is not None:
        return paren_end(text, around.end()) == len(text)
    if (before := _BEFORE.match(text)) is not None:
        return _is_operand(text[before.end() :])
    return text.startswith("(") and paren_end(text, 0) == len(text) and _is_cast(text[1:-1].strip())


def _is_operand(text: str) -> bool:
    """Return True if no operator with two operands stands outside of brackets."""
    while (shorter := _BRACKETS.sub("", text)) != text:
        text = shorter
    return re.fullmatch(r"[\s+*~-]*(?:\w|\.|->|::|\s)*", text) is not None
