"""Work of hooks in C++ that belongs to another hook: an action where there is none, an observation that changes the state."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_vecenv.testing.kernel_text import Function, functions_of
from gpu_vecenv.testing.phases import Hook, Ranges

OBSERVING = ("env_observe", "env_observe_step")

ONLY_STEPS = {
    r"(?:[\w.]+|(?<=[\])]))(?:\[[^\[\]]*\])?\.action\s*\.\s*(?:template\s+)?(?:(?:given_|checked_)?(?:index|value)|indices|place)\b":
        "an action exists in env_step only; keep in the state what another hook needs of it",
    r"\bw\s*\.\s*(?:terminate|truncate|truncate_at)\b": "env_step alone ends episodes",
    r"\bw\s*\.\s*record\s*\.\s*\w+": "env_step alone records metrics",
}  # fmt: skip
"""Calls that only steps may make, and what to do."""


def in_wrong_hook(text: str, ranges: Ranges) -> Iterator[tuple[int, str]]:
    """Yield what ``env_reset`` and the observing hooks do in place of ``env_step``, as (position, message).

    Functions of the text that these hooks call are read with them.

    Args:
        text: the text without comments.
        ranges: what is known of the agents.
    """
    functions = functions_of(text)
    for name in ("env_reset", *OBSERVING):
        hook = functions.get(name)
        if hook is None or "w" not in hook.parameters:
            continue
        for function in _called(text, functions, hook):
            for pattern, reason in ONLY_STEPS.items():
                for match in re.compile(pattern).finditer(text, function.start, function.end):
                    yield match.start(), f"`{match[0]}` in {name}: {reason}"
        yield from _writes(text, functions, hook, ranges)


def _writes(text: str, functions: dict[str, Function], hook: Function, ranges: Ranges) -> Iterator[tuple[int, str]]:
    """Yield writes of rewards, and in observing hooks of the state."""
    for access in (access for stretch in Hook(text, functions, ranges).read(hook) for access in stretch if access.writes):
        if access.memory == "reward":
            yield access.position, f"`{access.text}` is written in {hook.name}; env_step alone gives rewards"
        elif hook.name in OBSERVING and not access.memory.startswith("scratch."):
            yield access.position, (f"`{access.text}` is written in {hook.name}, which writes observations and scratch only; "
                                    "write in env_step what lasts")  # fmt: skip


def _called(text: str, functions: dict[str, Function], hook: Function) -> list[Function]:
    """Return a hook and the functions that it calls, directly or not."""
    functions_by_name = {hook.name: hook}
    waiting = [hook]
    while waiting:
        function = waiting.pop()
        for call in re.compile(r"(?<![.\w])(\w+)\s*(?:<[^<>;]*>)?\s*\(").finditer(text, function.start, function.end):
            called = functions.get(call[1])
            if called is not None and called.name not in functions_by_name:
                functions_by_name[called.name] = called
                waiting.append(called)
    return list(functions_by_name.values())
