"""Text of kernels in C++: functions, ends of statements and blocks, and the text without comments."""

from __future__ import annotations

import re
from typing import NamedTuple


class Function(NamedTuple):
    """A function of a text: its name, the names of its parameters, and the ends of its body with the braces."""

    name: str
    parameters: tuple[str, ...]
    start: int
    end: int


def functions_of(text: str) -> dict[str, Function]:
    """Return the functions of a text by name."""
    heads = re.finditer(r"\bGV_(?:FN|INLINE|METHOD)\b[^;{}]*?(\w+)\s*\(([^;{}]*)\)\s*(?:const\s*)?(?=\{)", text)
    functions = {}
    for head in heads:
        names = [re.search(r"(\w+)\s*(?:\[\w*\])?\s*$", part.partition("=")[0]) for part in head[2].split(",")]
        parameters = tuple(name[1] for name in names if name)
        functions[head[1]] = Function(head[1], parameters, head.end(), block_end(text, head.end()))
    return functions


def block_end(text: str, start: int) -> int:
    """Return the position behind the brace or bracket that closes the one at ``start``."""
    opening = text[start]
    closing = {"{": "}", "[": "]", "(": ")"}[opening]
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == opening) - (text[position] == closing)
        if depth == 0:
            return position + 1
    return len(text)


def paren_end(text: str, start: int) -> int:
    """Return the position behind the parenthesis that closes the one at ``start``."""
    return block_end(text, start)


def statement_end(text: str, start: int) -> int:
    """Return the position behind the statement that begins at ``start``."""
    while start < len(text) and text[start].isspace():
        start += 1
    if start >= len(text):
        return len(text)
    if text[start] == "{":
        return block_end(text, start)
    if text[start] == "#":  # a directive
        line = text.find("\n", start)
        return len(text) if line < 0 else line
    head = re.compile(r"(?:(?:GV_LOOP|GV_UNROLL)\s+)?(?:else\s+)?(?:for|while|if(?:\s+constexpr)?|switch)\s*(?=\()").match(
        text, start
    )
    if head:
        end = statement_end(text, block_end(text, head.end()))
        follows = re.compile(r"\s*else\b").match(text, end)
        return statement_end(text, follows.end()) if follows else end
    if re.compile(r"(?:else|do)\b").match(text, start):
        return statement_end(text, start + (4 if text.startswith("else", start) else 2))
    depth = 0
    for position in range(start, len(text)):
        letter = text[position]
        depth += (letter in "([{") - (letter in ")]}")
        if (letter == ";" and depth == 0) or depth < 0:
            return position + 1
    return len(text)


def place_of(text: str, position: int) -> tuple[str, int]:
    """Return file and line of a position, by the last ``#line`` before it; the file is empty without one."""
    directives = list(re.finditer(r'^#line (\d+) "(.*)"$', text[:position], re.MULTILINE))
    if not directives:
        return "", text.count("\n", 0, position) + 1
    return directives[-1][2], int(directives[-1][1]) + text.count("\n", directives[-1].end(), position) - 1


def without_comments(text: str) -> str:
    """Return the text with spaces in place of comments."""
    return blank(r"//[^\n]*|/\*.*?\*/", text)


def without_lambdas(text: str) -> str:
    """Return the text with the bodies of lambdas blanked: a ``return`` in a lambda does not leave the function."""
    for head in re.finditer(r"\[[&=\w, ]*\]\s*\([^(){}]*\)\s*(?=\{)", text):
        if text[head.end()] != "{":
            continue  # inside a lambda that is blank already
        end = block_end(text, head.end())
        text = text[: head.end()] + blank(".+", text[head.end() : end]) + text[end:]
    return text


def blank(pattern: str, text: str) -> str:
    """Return the text with spaces in place of the matches; lines keep their numbers."""
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.DOTALL)
