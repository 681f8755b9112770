"""Rules for hooks that their text shows to be broken, with file and line.

CONTRIBUTING.md lists the rules. The text is read without a parser of C++: it finds mistakes, and cannot find every violation that
is written on purpose. Hooks in Python are translated first; the translator refuses most mistakes itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpu_vecenv.backend.source import KERNEL_FOLDER, read_text
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.pyhooks.translate import translate
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.axes import joined_axes
from gpu_vecenv.testing.casts import joined_casts
from gpu_vecenv.testing.conflicts import SCATTER, conflicts
from gpu_vecenv.testing.errors import CheckError
from gpu_vecenv.testing.kernel_text import (
    blank,
    block_end,
    functions_of,
    place_of,
    statement_end,
    without_comments,
    without_lambdas,
)
from gpu_vecenv.testing.locals import kept_locals
from gpu_vecenv.testing.phases import Ranges
from gpu_vecenv.testing.subject import Subject
from gpu_vecenv.testing.wrong_hook import in_wrong_hook

LIBRARY = (
    "a?(?:sin|cos|tan)h?|atan2|sincos(?:pi)?|(?:sin|cos)pi|exp(?:2|10|m1)?|log(?:2|10|1p)?|pow|r?sqrt|r?cbrt|fma|fabs|abs|"
    "fmod|remainder|modf|f?min|f?max|hypot|erfc?|[tl]gamma|floor|ceil|trunc|rint|nearbyint|l?round|ldexp|frexp"
)
BANNED = {
    r"\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)\b": "reads the launch's sizes or indices; use GV_FOR and GV_ONCE",
    r"\bteam\s*\.\s*lanes?\b": "reads the number of the lane or of lanes; use GV_FOR and GV_ONCE",
    r"\b__(?!CUDACC_RTC__)\w+": "uses a name reserved for the compiler; use gv_barrier, gv_sum and lib/math.h",
    rf"(?<![\w.>])(?:{LIBRARY})[fl]?\s*\(": "calls a mathematical library; use lib/math.h",
    r"\batomic\w*": "uses an atomic operation; gather instead, or sum with gv_sum",
    r"\bgv_block_barrier\b": "waits for other worlds; use gv_barrier",
    r'#\s*include(?!\s*"(?:(?:lib/|\.\./\w+/)?\w+)\.h"|\s*<cstdio>)': "includes more than hooks.h, lib/ and headers of envs",
}
DOUBLES = {
    r"\bdouble\b": "computes in double precision; a function needs the mark // double: REASON",
    r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE][+-]?\d))(?:[eE][+-]?\d+)?(?![\w.])": "is a double literal; append f",
}
DOUBLE_MARK = r"^// double: \S.*\n(?://.*\n)*(?=GV_(?:FN|INLINE)\b)"
"""Comment that allows doubles in the function below it."""

SCATTER_MARK = r"// scatter: \S.*"
"""Comment that allows a write at an index that is not the loop's, behind it or above the statement."""

BARRIERS = ("gv_barrier", "gv_sum", "gv_sum_each", "gv_count", "gv_any", r"w\.(?:barrier|sum|count|any|pairs)")

SOME_LANES = (
    r"\bGV_FOR\s*\([^;{]*?,[^;{]*?\)\s*(?=[{\w])|\bGV_ONCE\b\s*|\bif \(w\.once\)\s*"
    r"|\bfor \([^:;{}]*: w\.(?:agents|role\.\w+|each\([^;{}]*?\)|pairs\([^;{}]*?\))\)\s*(?=[{\w])"
)
"""Heads of work that the lanes do different numbers of times."""


Violations = list[tuple[int, str]]
"""Line numbers and messages, in order."""


def lint_file(path: Path) -> Violations:
    """Return the violations in a file of C++, whose spec is not known.

    Headers of the package implement what the rules refer to. They keep the rule on doubles alone.

    Raises:
        ParameterError: a file of Python, whose names come from a spec.
        CompileError: the file cannot be read.
    """
    if path.suffix == ".py":
        raise ParameterError(
            f"{path}: expected MODULE:ID for hooks in Python, whose names and types come from the spec, got a file."
        )
    text = read_text("lint", path)
    return (lint_doubles if path.resolve().is_relative_to(KERNEL_FOLDER.resolve()) else lint)(text)


def lint_env(layout: Layout) -> list[str]:
    """Return the violations in the hooks of an env as ``FILE:LINE: MESSAGE``.

    Args:
        layout: memory layout of the env, which tells roles and numbers of agents.

    Raises:
        HookError: the translator refuses hooks in Python.
        CompileError: a file cannot be read.
    """
    spec = layout.spec
    if spec.kernel.suffix == ".py":
        text = translate(spec, spec.kernel, read_text(spec.name, spec.kernel))
        plain = without_comments(text)
        violations = [*conflicts(plain, Ranges(layout)), *joined_axes(plain, layout)]
    else:
        text = _with_headers(spec, spec.kernel, set())
        violations = [*_all_violations(text, Ranges(layout)), *joined_axes(without_comments(text), layout)]
    places = [(*place_of(text, position), message) for position, message in sorted(set(violations))]
    return [f"{file}:{line}: {message}" for file, line, message in places]


def _with_headers(spec: EnvSpec, path: Path, written: set[Path]) -> str:
    """Return the text of a kernel with the headers of its folder inserted; ``#line`` keeps the places."""
    lines = [f'#line 1 "{path}"']
    for number, line in enumerate(read_text(spec.name, path).splitlines(), start=1):
        include = re.match(r'\s*#\s*include\s*"([\w/.]+)"', line)
        header = spec.kernel.parent / include[1] if include else None
        if header is not None and header.is_file() and header not in written:
            written.add(header)
            lines += [_with_headers(spec, header, written), f'#line {number + 1} "{path}"']
        else:
            lines.append(line)
    return "\n".join(lines)


def lint_doubles(text: str) -> Violations:
    """Return the doubles outside the functions that are marked for them."""
    return _by_line(text, _doubles(text))


def lint(text: str) -> Violations:
    """Return the violations in a kernel's text, whose spec is not known."""
    return _by_line(text, _all_violations(text, Ranges()))


def _by_line(text: str, violations: Violations) -> Violations:
    return [(place_of(text, position)[1], message) for position, message in violations]


def _all_violations(text: str, ranges: Ranges) -> Violations:
    """Return all violations as (position, message)."""
    violations, commented, text = _doubles(text), text, without_comments(text)
    violations += [*_banned(BANNED, text), *joined_casts(text), *in_wrong_hook(text, ranges)]
    plain = without_lambdas(text)
    barrier_call = re.compile(rf"\b(?:{'|'.join(_functions_with_barriers(plain))})\s*\(")
    violations += _returns_before_barriers(plain, barrier_call) + _barriers_of_some_lanes(plain, barrier_call)
    return sorted({*violations, *kept_locals(text), *_unmarked(commented, text, conflicts(text, ranges))})


def _unmarked(commented: str, text: str, all_conflicts: Iterable[tuple[int, str]]) -> Violations:
    """Return conflicts but for the scatters that a mark allows, and the marks that allow none.

    Args:
        commented: the text with its comments.
        text: the text without comments.
        all_conflicts: conflicts in it.
    """
    remaining = list(all_conflicts)
    for mark in re.finditer(SCATTER_MARK, commented):
        start = commented.rfind("\n", 0, mark.start()) + 1
        end = mark.start() if text[start : mark.start()].strip() else statement_end(text, mark.end())
        left = [(position, said) for position, said in remaining if not (start <= position < end and SCATTER in said)]
        unused = (mark.start(), "the mark `// scatter:` allows nothing, because no such write follows; remove it")
        remaining = left if len(left) < len(remaining) else [*left, unused]
    return remaining


def _doubles(text: str) -> Violations:
    for mark in re.finditer(DOUBLE_MARK, text, flags=re.MULTILINE):
        end = block_end(text, text.find("{", mark.end()))
        text = text[: mark.end()] + blank(".+", text[mark.end() : end]) + text[end:]
    return sorted(_banned(DOUBLES, without_comments(text)))


def check_lint(subject: Subject) -> str:
    """Look for violations of the rules for kernels in the text of the hooks."""
    layout = subject.layout()
    violations = lint_env(layout)
    if violations:
        raise CheckError("\n".join(violations))
    return layout.spec.kernel.name


def _functions(text: str) -> Iterator[tuple[str, int, int]]:
    return ((function.name, function.start, function.end) for function in functions_of(text).values())


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
        end = block_end(text, match.end()) if text[match.end()] == "{" else text.find(";", match.end())
        opening = match[0].strip()
        head = opening if "w." in opening else opening.partition("(")[0].strip()
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
