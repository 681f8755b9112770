"""Checks kernels against the rules for kernels: ``python tools/lint/kernels.py [FILE ...]``, by default all of them.

CONTRIBUTING.md lists the rules. Kernels of ``envs/`` must keep all of them. Headers of ``gpu_vecenv/kernels``, which implement
what the rules refer to, must keep the rule on doubles: only a function below a comment ``// double: REASON`` may have them. The
checks read the text of one file at a time, without comments, and do not parse C++. They find mistakes; they cannot find every
violation that is written on purpose.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "gpu_vecenv" / "kernels"

LIBRARY = (
    "a?(?:sin|cos|tan)h?|atan2|sincos(?:pi)?|(?:sin|cos)pi|exp(?:2|10|m1)?|log(?:2|10|1p)?|pow|r?sqrt|r?cbrt|fma|fabs|abs|"
    "fmod|remainder|modf|f?min|f?max|hypot|erfc?|[tl]gamma|floor|ceil|trunc|rint|nearbyint|l?round|ldexp|frexp"
)
BANNED = {
    r"\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)\b": "reads the launch's sizes or indices; use GV_FOR and GV_ONCE",
    r"\bteam\s*\.\s*lanes?\b": "reads the number of the lane or of lanes; use GV_FOR and GV_ONCE",
    r"\b__\w+": "uses a name reserved for the compiler; use gv_barrier, gv_sum and lib/math.h",
    rf"(?<![\w.>])(?:{LIBRARY})[fl]?\s*\(": "calls a mathematical library; use lib/math.h",
    r"\batomic\w*": "uses an atomic operation; gather instead, or sum with gv_sum",
    r"\bgv_block_barrier\b": "waits for other worlds; use gv_barrier",
    r'#\s*include(?!\s*"(?:(?:lib/|\.\./\w+/)?\w+)\.h")': "includes more than hooks.h, lib/ and headers of envs",
}
DOUBLES = {
    r"\bdouble\b": "computes in double precision; a function needs the mark // double: REASON",
    r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE][+-]?\d))(?:[eE][+-]?\d+)?(?![\w.])": "is a double literal; append f",
}
DOUBLE_MARK = r"^// double: \S.*\n(?://.*\n)*(?=GV_(?:FN|INLINE)\b)"
"""Comment that allows doubles in the function below it."""

BARRIERS = ("gv_barrier", "gv_sum", "gv_sum_each", "gv_count", "gv_any", r"w\.(?:barrier|sum|count|any|pairs)")

SOME_LANES = (
    r"\bGV_FOR\s*\([^;{]*?,[^;{]*?\)\s*(?=[{\w])|\bGV_ONCE\b\s*|\bif \(w\.once\)\s*"
    r"|\bfor \([^:;{}]*: w\.(?:agents|role\.\w+|each\([^;{}]*?\)|pairs\([^;{}]*?\))\)\s*(?=[{\w])"
)
"""Heads of work that the lanes do different numbers of times."""


def sources() -> list[Path]:
    """The kernels of all envs, the headers that they share, and the headers of the package."""
    return sorted(path for folder in (ROOT / "envs", HEADERS) for path in folder.rglob("*") if path.suffix in (".cu", ".h"))


def lint_file(path: Path) -> list[tuple[int, str]]:
    """Violations in a file as (line number, message), in order."""
    return (lint_doubles if path.resolve().is_relative_to(HEADERS) else lint)(path.read_text())


def lint_doubles(text: str) -> list[tuple[int, str]]:
    """Doubles outside the functions that are marked for them, as (line number, message), in order."""
    for mark in re.finditer(DOUBLE_MARK, text, flags=re.MULTILINE):
        end = _block_end(text, text.find("{", mark.end()))
        text = text[: mark.end()] + _blank(".+", text[mark.end() : end]) + text[end:]
    text = _without_comments(text)
    return sorted((text.count("\n", 0, position) + 1, message) for position, message in _banned(DOUBLES, text))


def lint(text: str) -> list[tuple[int, str]]:
    """Violations in a kernel's text as (line number, message), in order."""
    doubles, text = lint_doubles(text), _without_comments(text)
    violations = _banned(BANNED, text)
    plain = _without_lambdas(text)
    barrier_call = re.compile(rf"\b(?:{'|'.join(_functions_with_barriers(plain))})\s*\(")
    violations += _returns_before_barriers(plain, barrier_call) + _barriers_of_some_lanes(plain, barrier_call)
    return sorted(doubles + [(text.count("\n", 0, position) + 1, message) for position, message in violations])


def _banned(bans: dict[str, str], text: str) -> list[tuple[int, str]]:
    """Matches of patterns as (position, message)."""
    return [(match.start(), f"`{match[0].strip()}` {reason}") for ban, reason in bans.items() for match in re.finditer(ban, text)]


def _returns_before_barriers(text: str, barrier_call: re.Pattern[str]) -> list[tuple[int, str]]:
    violations = []
    for name, start, end in _functions(text):
        barriers = [match.start() for match in barrier_call.finditer(text, start, end)]
        violations += [
            (match.start(), f"`return` in {name} skips a barrier that other lanes reach")
            for match in re.finditer(r"\breturn\b[^;]*;", text[:end])
            if barriers and start <= match.start() and match.end() <= barriers[-1]
        ]
    return violations


def _barriers_of_some_lanes(text: str, barrier_call: re.Pattern[str]) -> list[tuple[int, str]]:
    """Barriers inside phases and work of one lane, whose bodies the lanes execute different numbers of times."""
    violations = []
    for match in re.finditer(SOME_LANES, text):
        end = _block_end(text, match.end()) if text[match.end()] == "{" else text.find(";", match.end())
        found = match[0].strip()
        head = found if "w." in found else found.partition("(")[0].strip()
        violations += [
            (barrier.start(), f"a barrier under {head} is not executed equally often by all lanes")
            for barrier in barrier_call.finditer(text, match.end(), end)
        ]
    return violations


def _functions_with_barriers(text: str) -> set[str]:
    """Names of functions that contain a barrier or call a function that does."""
    names = set(BARRIERS)
    while True:
        calls = re.compile(rf"\b(?:{'|'.join(names)})\s*\(")
        callers = {name for name, start, end in _functions(text) if calls.search(text, start, end)} - names
        if not callers:
            return names
        names |= callers


def _functions(text: str) -> list[tuple[str, int, int]]:
    """Name of each function of the file, and start and end of its body."""
    heads = re.finditer(r"\bGV_(?:FN|INLINE)\b[^;{}]*?(\w+)\s*\([^;{}]*\)\s*(?=\{)", text)
    return [(head[1], head.end(), _block_end(text, head.end())) for head in heads]


def _block_end(text: str, start: int) -> int:
    """Position behind the brace that closes the one at ``start``."""
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return position + 1
    return len(text)


def _without_lambdas(text: str) -> str:
    """The text with the bodies of lambdas blanked: a ``return`` in a lambda does not leave the function."""
    for head in re.finditer(r"\[[&=\w, ]*\]\s*\([^(){}]*\)\s*(?=\{)", text):
        end = _block_end(text, head.end())
        text = text[: head.end()] + _blank(".+", text[head.end() : end]) + text[end:]
    return text


def _without_comments(text: str) -> str:
    return _blank(r"//[^\n]*|/\*.*?\*/", text)


def _blank(pattern: str, text: str) -> str:
    """The text with spaces instead of the matches; lines keep their numbers."""
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    """Print the violations in the files given; returns the exit status."""
    files = [Path(name) for name in arguments] or sources()
    violations = [f"{file}:{line}: {message}" for file in files for line, message in lint_file(file)]
    print("\n".join(violations), end="\n" if violations else "")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
