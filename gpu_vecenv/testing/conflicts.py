"""Conflicts between lanes: accesses of one number by two of them without a barrier between, one of which writes it."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_vecenv.testing.kernel_text import functions_of, place_of
from gpu_vecenv.testing.phases import Access, Hook, Ranges

SCATTER = "written at an index that is not the loop's, and another lane may write it; gather instead, see the rules for kernels"
IN_TURN = "write in one phase and read in the next"
WAIT = "put w.barrier() between the two phases"

Problem = tuple[int, str]
"""Position in the text, and a message."""


def conflicts(text: str, ranges: Ranges) -> Iterator[Problem]:
    """Yield the conflicts between lanes in the hooks of a text.

    Args:
        text: the text without comments.
        ranges: what is known of the agents.
    """
    functions = functions_of(text)
    for name, function in functions.items() if ranges.several else ():
        if name.startswith("env_") and "w" in function.parameters:
            for stretch in Hook(text, functions, ranges).read(function):
                yield from _scattered(stretch, ranges)
                yield from _unordered(text, stretch, ranges)


def _scattered(stretch: list[Access], ranges: Ranges) -> Iterator[Problem]:
    """Yield writes of one element by more than one lane."""
    for access in stretch if ranges.several else ():
        if access.writes and access.lanes == "other":
            yield access.position, f"`{access.text}` is {SCATTER}"
        elif access.writes and ranges.known and access.lanes in ("world", "all"):
            lanes = "each lane of the phase writes" if access.lanes == "world" else "all lanes write"
            yield access.position, f"`{access.text}` is one number of the world, which {lanes}; write it under `if (w.once)`"


def _unordered(text: str, stretch: list[Access], ranges: Ranges) -> Iterator[Problem]:
    """Yield accesses of what another lane writes, without a barrier between."""
    told = set[int]()
    for write in stretch:
        if not write.writes or write.lanes in ("other", "world", "all"):
            continue
        line = place_of(text, write.position)[1]
        for access in stretch:
            if access.position in told or not _apart(write, access, ranges):
                continue
            told.add(access.position)
            of_write = f"`{write.text}` (line {line})"
            if access.phase == write.phase:
                yield access.position, f"`{access.text}` reads a neighbour in the phase that writes {of_write}; {IN_TURN}"
            else:
                yield access.position, f"`{access.text}` is of another lane than the write of {of_write}; {WAIT}"


def _apart(write: Access, access: Access, ranges: Ranges) -> bool:
    """Return True if two accesses may be those of different lanes to one element."""
    if access.memory != write.memory or access.lanes == write.lanes:
        return False
    if write.role and access.role and write.role != access.role:
        return False  # agents of different roles
    if access.writes and access.lanes in ("other", "world", "all"):
        return False  # another message tells of it
    both_own = write.lanes.startswith("own") and access.lanes.startswith("own")
    return not both_own or (ranges.known and write.memory in ranges.of_agents)
