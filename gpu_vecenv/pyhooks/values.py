"""Facts that the translator keeps of expressions and of accesses to memory."""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

C_TYPES = {"f32": "float", "i32": "gv_i32", "bool": "bool"}
"""Types of C++ by the names of types of hooks. Locals, parameters and results of helpers have one of them."""

Where: TypeAlias = Literal["own", "once", "all", "pair"]
"""Lanes that access an element: ``own`` is the one that works on it, ``once`` the first, ``all`` any, ``pair`` one of a pair."""

ELEMENT = "element"
"""Group of elements that are numbered as the loop of a phase is, so that element k is the work of lane k."""


@dataclass(frozen=True)
class Access:
    """Access to memory between two barriers.

    Attributes:
        writes: True for a write.
        field: name of the memory.
        where: lanes that access an element.
        group: ``ELEMENT`` or the role of the elements; empty if they are not known.
        node: its place in the file.
    """

    writes: bool
    field: str
    where: Where
    group: str
    node: ast.AST = dataclasses.field(compare=False)  # of two that are else equal, the first is kept

    def conflicts(self, other: Access) -> bool:
        """Return True if two lanes may access one element, and one of them writes."""
        if self.field != other.field or not (self.writes or other.writes):
            return False
        roles = {self.group, other.group} - {ELEMENT, ""}
        if len(roles) == 2:  # no agent has two roles
            return False
        if self.where == other.where == "once":
            return False
        if self.where == other.where == "own":
            return self.group != other.group
        return True


class Handle(NamedTuple):
    """An agent, or a range of agents: whose it is, and ``agents`` or the name of a role."""

    where: Where
    group: str


@dataclass(frozen=True)
class Value:
    """An expression.

    Attributes:
        text: its text in C++.
        type: ``f32``, ``i32``, ``bool``, or what else hooks name: ``agent``, ``range``, ``array``, ``axes``, ``row``, ``draw``,
            ``names`` for a group of names such as ``w.state``, ``record``, ``tuple``, ``none``.
        static: True if it is the same in all worlds.
        once: True if its text may stand in the kernel once only, because it counts invalid actions or writes.
        counts: True for the number of the element that the lane works on.
        natural: True for an i32 that is known not to be negative, of which C++ divides as Python does.
        handle: of an agent, a range, an action or a row.
        member: of an array, a row or a group of names: which; of a tuple, the types of its items separated by commas.
        dtype: of an array or a number in memory.
        literal: of a number that stands in the file: its value.
    """

    text: str
    type: str
    static: bool = False
    once: bool = False
    counts: bool = False
    natural: bool = False
    handle: Handle | None = None
    member: str = ""
    dtype: str = ""
    literal: Any = None

    def named(self, name: str) -> Value:
        """Return the value of a variable of C++ that holds this one."""
        return replace(self, text=name, once=False, literal=None)


Kind: TypeAlias = Literal["uniform", "phase", "pairs", "once"]
"""Code that all lanes run alike, one lane for each element, one lane for each pair, or the first lane."""


@dataclass
class Region:
    """Code whose locals live as long as it runs: a hook, a phase, ``if w.once`` or a helper.

    Attributes:
        types: types of its locals by name.
        hoisted: locals that are declared before its first statement, because a block assigns them.
        assigned: how often statements assign each name.
        loops: names of the variables of its serial loops.
    """

    types: dict[str, str] = field(default_factory=dict)
    hoisted: list[str] = field(default_factory=list)
    assigned: dict[str, int] = field(default_factory=dict)
    loops: set[str] = field(default_factory=set)


@dataclass
class Scope:
    """Names and place of a statement.

    Attributes:
        kind: lanes that run it.
        region: the region around it.
        names: values of names that are assigned on every path to it.
        depth: blocks around it.
        top: True in the block of the region itself.
        static: True if the same worlds, all or none, reach it.
        loops: loops around it from the outermost to the innermost, ``pairs`` or ``loop``; a ``break`` leaves a ``loop``.
        single: True in a phase over the only agent of a world, which the first lane runs.
        branch: True in a part of an expression that some worlds may skip.
        helper: True in a function that hooks call.
    """

    kind: Kind
    region: Region
    names: dict[str, Value]
    depth: int = 1
    top: bool = True
    static: bool = True
    loops: tuple[str, ...] = ()
    single: bool = False
    branch: bool = False
    helper: bool = False

    def block(self, **changes: object) -> Scope:
        """Return the scope of a block inside a statement."""
        changed: Scope = replace(self, names=dict(self.names), depth=self.depth + 1, top=False)
        for name, value in changes.items():
            setattr(changed, name, value)
        return changed


def float_text(number: float) -> str:
    """Return the text of a float32 in C++: the shortest decimal from which compilers read the same bits."""
    text = f"{np.float32(number)!s}f"
    return text if number >= 0 and not text.startswith("-") else f"({text})"


def int_text(number: int) -> str:
    """Return the text of an int32 in C++, in which the smallest has no literal."""
    if number == -(2**31):
        return "(-2147483647 - 1)"
    return str(number) if number >= 0 else f"({number})"
