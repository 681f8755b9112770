"""Locals that a phase assigns and that are read behind it: with one lane they hold the value of the last element."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_vecenv.testing.kernel_text import Function, block_end, functions_of, place_of, statement_end

PHASE = re.compile(
    r"\bfor\s*\([^;{}()]*:\s*w\.(?:agents|role\.\w+|each\s*\(|pairs\s*\()|\bif\s*\(\s*w\.once\b|\bGV_FOR\s*\(|\bGV_ONCE\b"
)
DECLARED = re.compile(r"(?<=[;{}])\s*(?:float|int|bool|unsigned|auto|gv_[iu]\d+)\s+(?![&*])([^;&*{}]+);")


def kept_locals(text: str) -> Iterator[tuple[int, str]]:
    """Yield reads of such locals as (position, message).

    Args:
        text: text of hooks in C++, without comments.
    """
    for function in functions_of(text).values():
        phases = list(_phases(text, function))
        for name, declared in _locals(text, function, phases) if phases else ():
            yield from _read_behind(text, name, declared, function.end, phases)


def _phases(text: str, function: Function) -> Iterator[tuple[int, int]]:
    """Yield start and end of each phase."""
    position = function.start
    while head := PHASE.search(text, position, function.end):
        start = head.start()
        if head[0].startswith("GV_ONCE"):
            end = statement_end(text, head.end())
        elif head[0].startswith("GV_FOR"):
            end = statement_end(text, block_end(text, head.end() - 1))
        else:
            end = statement_end(text, start)
        yield start, end
        position = max(end, head.end())


def _locals(text: str, function: Function, phases: list[tuple[int, int]]) -> Iterator[tuple[str, int]]:
    """Yield name and position of each local outside the phases that is no constant."""
    for declaration in DECLARED.finditer(text, function.start, function.end):
        if not any(start <= declaration.start(1) < end for start, end in phases):
            names = re.sub(r"\([^()]*\)|=[^,]*", "", declaration[1])
            for name in re.findall(r"\w+", names):
                yield name, declaration.end()


def _read_behind(text: str, name: str, declared: int, end: int, phases: list[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Yield the first read behind a phase that assigns a local."""
    used = re.compile(rf"(?<![\w.]){name}\b")
    assigned = re.compile(rf"(?<![\w.]){name}\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{name}\b")
    hidden = re.compile(rf"\b(?:float|int|bool|auto|gv_\w+)\s+(?:\w+\s*=[^;]*,\s*)?{name}\b")
    for start, stop in phases:
        write = assigned.search(text, start, stop)
        if start < declared or write is None or hidden.search(text, start, stop):
            continue
        read = used.search(text, stop, end)
        if read is None or re.match(r"\s*=(?!=)", text[read.end() :]):
            continue  # a new value
        if re.search(r"\b(?:w\.any|gv_any)\s*\([^();]*$", text[stop : read.start()]):
            continue  # each lane gives its own value, and all get the same
        line = place_of(text, write.start())[1]
        yield read.start(), (f"`{name}` is read behind the phase that assigns it (line {line}), and each lane has another value; "
                             "keep it in w.scratch or in the state")  # fmt: skip
        return
