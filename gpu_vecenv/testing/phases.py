"""Accesses of hooks in C++ by phase: what lanes write, and what other lanes read or write before the next barrier.

The text is read without a parser of C++: statements, phases, calls of functions of the same file, and names of agents, state and
scratch. Memory that is reached in another way, such as by a pointer to a row, is not followed; the sanitizers see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.kernel_text import Function, block_end, paren_end, statement_end

PHASE = re.compile(
    r"(?:GV_LOOP\s+)?for\s*\(\s*(?:const\s+)?(?:auto|int|gv_\w+)\s*&?\s*(\w+|\[[^\]]*\])\s*:\s*(w\.(agents|role\.\w+|each|pairs)\b)"
)
ONCE = re.compile(r"if\s*\(\s*w\.once\b")
WAITS = re.compile(r"\bw\.(barrier|sum|count|any)\s*\(")
NOT_MEMORY = {"index", "in_role", "action", "obs", "mask", "effects", "at", "of_lane", "count"}
"""Members of an agent that are no memory of the state, or rows that several lanes may write by design."""

NUMBERS = ("index", "in_role")
"""Numbers of an agent."""


@dataclass(frozen=True)
class Access:
    """One access of a hook."""

    memory: str
    """Field of the state, or ``scratch.NAME``."""
    text: str
    """The expression, for messages."""
    writes: bool
    lanes: str
    """Lanes that access the element: ``"own"`` the lane of its number, ``"own NAME"`` the lane of its number in a role or of a
    pair, ``"other"`` any lane, ``"world"`` each lane of a phase for a number of the world, ``"once"`` the first lane, ``"all"``
    all lanes.
    """
    role: str
    """Role of the agent whose element it is; empty if it may be that of any."""
    phase: int
    """Number of the phase; 0 outside phases."""
    position: int


class Ranges:
    """Ranges of agents: which lane has an agent, and how many agents there are.

    Args:
        layout: that of the env; None for a file whose spec is unknown.
    """

    def __init__(self, layout: Layout | None = None) -> None:
        self.known = layout is not None
        fields = layout.spec.state if layout else ()
        self.of_agents = {"reward", *(field.name for field in fields if field.extents[:1] == ("num_agents",))}
        self._counts = layout.role_counts if layout else {}
        self.several = layout is None or layout.num_agents > 1 or layout.requested_lanes > 1

    def lanes(self, kind: str) -> str:
        """Return the lanes of a range's elements: ``agents``, ``each``, ``pairs`` or ``role.NAME``."""
        role = kind.removeprefix("role.")
        if kind in ("agents", "each") or role == next(iter(self._counts), None):
            return "once" if kind != "each" and sum(self._counts.values()) == 1 or self._counts.get(role) == 1 else "own"
        return "once" if self._counts.get(role) == 1 else f"own {role}"


@dataclass(frozen=True)
class Scope:
    """Meaning of names at a place."""

    lanes: str = "all"
    phase: int = 0
    own_agents: frozenset[str] = frozenset()
    other_agents: frozenset[str] = frozenset()
    roles: tuple[tuple[str, str], ...] = ()
    """Roles of agents, by name."""
    own_numbers: frozenset[str] = frozenset()
    """Numbers of the lane's element."""
    own_offsets: frozenset[str] = frozenset()
    """First numbers of parts that belong to the element, such as ``4 * me.index``, and tickets of ``gv_fetch_add``."""
    states: frozenset[str] = frozenset({"w.state"})
    scratches: frozenset[str] = frozenset({"w.scratch"})
    scalars: tuple[tuple[str, str], ...] = ()
    """References to numbers of the world, by name."""
    depth: int = 0


@dataclass
class Hook:
    """Reads one hook of a text.

    Args:
        text: the text without comments.
        functions: functions of the text by name.
        ranges: what is known of the agents.
    """

    text: str
    functions: dict[str, Function]
    ranges: Ranges
    accesses: list[Access] = field(default_factory=list)
    epochs: list[list[Access]] = field(default_factory=list)
    phases: int = 0

    def read(self, hook: Function) -> list[list[Access]]:
        """Return the accesses between barriers, one list for each stretch."""
        self._block(hook.start + 1, hook.end - 1, Scope())
        self._barrier()
        return self.epochs

    def _barrier(self) -> None:
        self.epochs.append(self.accesses)
        self.accesses = []

    def _block(self, start: int, end: int, scope: Scope) -> None:
        """Read statements; a declaration holds for those behind it."""
        while start < end:
            if self.text[start].isspace() or self.text[start] in ";}":
                start += 1
                continue
            stop = min(end, statement_end(self.text, start))
            scope = self._statement(start, stop, scope)
            start = max(stop, start + 1)

    def _statement(self, start: int, end: int, scope: Scope) -> Scope:
        text = self.text
        if text[start] == "{":
            self._block(start + 1, end - 1, scope)
            return scope
        phase = PHASE.match(text, start, end)
        if phase and scope.phase == 0:
            return self._phase(phase, end, scope)
        once = ONCE.match(text, start, end)
        if once and scope.phase == 0:
            self.phases += 1
            self._block(paren_end(text, text.index("(", start)), end, replace(scope, lanes="once", phase=self.phases))
            return scope
        head = re.compile(r"(?:GV_LOOP\s+|GV_UNROLL\s+)?(?:else\s+)?(?:for|while|if(?:\s+constexpr)?|switch)\s*(?=\()").match(
            text, start, end
        )
        if head:
            close = paren_end(text, head.end())
            inner = self._expression(head.end(), close, scope)
            self._block(close, end, inner)
            return scope
        if text.startswith("else", start):
            self._block(start + 4, end, scope)
            return scope
        return self._expression(start, end, scope)

    def _phase(self, head: re.Match[str], end: int, scope: Scope) -> Scope:
        """Read the body of a loop whose elements the lanes share."""
        self.phases += 1
        close = paren_end(self.text, self.text.index("(", head.start()))
        kind, names = head[3], re.findall(r"\w+", head[1])
        inner = replace(scope, lanes=self.ranges.lanes(kind), phase=self.phases)
        if kind == "each":
            inner = replace(inner, own_numbers=scope.own_numbers | {names[0]})
        elif kind == "pairs":
            pair_numbers = {*names, *(f"{name}.{number}" for name in names for number in NUMBERS)}
            inner = replace(inner, other_agents=scope.other_agents | set(names), own_numbers=scope.own_numbers | pair_numbers)
        else:
            inner = _with_agent(inner, names[0], kind)
        self._block(close, end, inner)
        if kind == "pairs":
            self._barrier()
        return scope

    def _expression(self, start: int, end: int, scope: Scope) -> Scope:
        """Read a simple statement: calls that wait, calls of functions, accesses; return the scope with its declarations."""
        scope = self._declared(start, end, scope)
        position = start
        for wait in WAITS.finditer(self.text, start, end):
            close = paren_end(self.text, wait.end() - 1)
            self._accesses(position, wait.start(), scope)
            if wait[1] != "barrier":
                self._accesses(wait.end(), close, self._of_lambda(wait.end(), close, scope))
            if scope.phase == 0:
                self._barrier()
            position = close
        self._accesses(position, end, scope)
        return scope

    def _of_lambda(self, start: int, end: int, scope: Scope) -> Scope:
        """Return the scope of the function that a sum or a count calls for each element."""
        elements = re.compile(r"\s*w\.(agents|role\.\w+|each)\b").match(self.text, start, end)
        name = re.compile(r"\[[&=\w, ]*\]\s*\(\s*(?:const\s+)?\w+\s*&?\s*(\w+)\s*\)").search(self.text, start, end)
        if elements is None or name is None:
            return scope
        self.phases += 1
        inner = replace(scope, lanes=self.ranges.lanes(elements[1]), phase=self.phases)
        if elements[1] == "each":
            return replace(inner, own_numbers=scope.own_numbers | {name[1]})
        return _with_agent(inner, name[1], elements[1])

    def _declared(self, start: int, end: int, scope: Scope) -> Scope:
        """Return the scope with the names that a statement declares for agents, numbers, the state and its parts."""
        said = self.text[start:end]
        if match := re.match(r"\s*(?:const\s+)?auto\s*&?\s+(\w+)\s*=\s*w\.(agents|role\.\w+)(?:\[|\.of_lane\()", said):
            roles = (*scope.roles, (match[1], _role(match[2])))
            other_agents = scope.other_agents | {match[1]}
            return replace(scope, other_agents=other_agents, own_agents=scope.own_agents - {match[1]}, roles=roles)
        if scope.phase and re.match(r"\s*\(?\s*(?:const\s+)?(?:int|gv_i32|auto)\s", said):
            for name, value in re.findall(r"\b(\w+)\s*=(?!=)\s*([^,;]+)", said):
                if re.fullmatch(_own_number(scope), value.strip()):
                    scope = replace(scope, own_numbers=scope.own_numbers | {name})
                elif _lanes_of(value, scope) != "other":
                    scope = replace(scope, own_offsets=scope.own_offsets | {name})
        if match := re.match(r"\s*(?:const\s+)?auto\s*&\s*(\w+)\s*=\s*w\.(state|scratch)\s*;", said):
            name = "states" if match[2] == "state" else "scratches"
            return replace(scope, **{name: getattr(scope, name) | {match[1]}})
        if match := re.match(r"\s*(?:float|int|gv_\w+|auto)\s*&\s*(\w+)\s*=\s*w\.state\.(\w+)\s*;", said):
            return replace(scope, scalars=(*scope.scalars, (match[1], match[2])))
        return scope

    def _accesses(self, start: int, end: int, scope: Scope) -> None:
        """Note the accesses of an expression, and read the functions that it calls."""
        unknown = _lambdas(self.text, start, end) if scope.phase == 0 else []
        for memory, lanes, role, first, last in _memory(self.text, start, end, scope):
            if any(opens <= first < closes for opens, closes in unknown):
                continue  # the function that takes the lambda decides which lanes call it
            shown = re.sub(r"\s+", " ", self.text[first:last])
            for writes, does in enumerate(_direction(self.text, first, last)):
                if does:
                    self.accesses.append(Access(memory, shown, bool(writes), lanes, role, scope.phase, first))
        for call in re.compile(r"(?<![.\w])(\w+)\s*\(").finditer(self.text, start, end):
            function = self.functions.get(call[1])
            if function is not None and scope.depth < 8:
                arguments = _arguments(self.text, call.end() - 1)
                self._block(function.start + 1, function.end - 1, _of_call(function, arguments, scope))


def _lambdas(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the ends of the bodies of lambdas."""
    heads = re.compile(r"\[[&=\w, ]*\]\s*\([^(){}]*\)\s*(?=\{)").finditer(text, start, end)
    return [(head.end(), block_end(text, head.end())) for head in heads]


def _of_call(function: Function, arguments: list[str], scope: Scope) -> Scope:
    """Return the meaning of the parameters of a function in a call."""
    own_agents, other_agents, own_numbers, roles = set[str](), set[str](), set[str](), dict(scope.roles)
    bound = []
    for name, argument in zip(function.parameters, arguments, strict=False):
        taken = re.match(r"w\.(agents|role\.\w+)\[", argument)
        if argument in scope.own_agents:
            own_agents.add(name)
        elif argument in scope.other_agents or taken:
            other_agents.add(name)
        elif argument in scope.own_numbers | {f"{agent}.{number}" for agent in scope.own_agents for number in NUMBERS}:
            own_numbers.add(name)
        bound.append((name, _role(taken[1]) if taken else roles.get(argument, "")))
    names = frozenset(own_agents), frozenset(other_agents), tuple(bound), frozenset(own_numbers)
    return Scope(scope.lanes, scope.phase, *names, depth=scope.depth + 1)


def _role(kind: str) -> str:
    return kind.removeprefix("role.") if kind.startswith("role.") else ""


def _with_agent(scope: Scope, name: str, kind: str) -> Scope:
    """Return the scope in which a name is the agent of the lane, out of a range."""
    roles = (*scope.roles, (name, _role(kind)))
    return replace(scope, own_agents=scope.own_agents | {name}, other_agents=scope.other_agents - {name}, roles=roles)


def _arguments(text: str, opening: int) -> list[str]:
    """Return the arguments of a call as text."""
    depth, words, start = 0, [], opening + 1
    for position in range(opening, paren_end(text, opening)):
        letter = text[position]
        depth += (letter in "([{") - (letter in ")]}")
        if (letter == "," and depth == 1) or depth == 0:
            words.append(text[start:position].strip())
            start = position + 1
    return words


def _memory(text: str, start: int, end: int, scope: Scope) -> Iterator[tuple[str, str, str, int, int]]:
    """Yield memory, lanes, role, and the ends of the expression for each access to the state or scratch."""
    roles = dict(scope.roles)
    for match in re.compile(r"(?<![\w.])(\w+)\.(\w+)\b(?!\s*\()").finditer(text, start, end):
        owned, other = match[1] in scope.own_agents, match[1] in scope.other_agents
        if (owned or other) and match[2] not in NOT_MEMORY:
            last = _index_end(text, match.end())
            yield match[2], scope.lanes if owned else _other(scope), roles.get(match[1], ""), match.start(), last
    for match in re.compile(r"(?<![\w.])w\.(agents|role\.\w+)\[").finditer(text, start, end):
        close = block_end(text, match.end() - 1)
        member = re.compile(r"\.(\w+)\b(?!\s*\()").match(text, close, end)
        if member and member[1] not in NOT_MEMORY:
            lanes = _lanes_of(text[match.end() : close - 1].strip(), scope)
            yield member[1], lanes, _role(match[1]), match.start(), _index_end(text, member.end())
    for names, prefix in ((scope.states, ""), (scope.scratches, "scratch.")):
        named = "|".join(map(re.escape, sorted(names)))
        for match in re.compile(rf"(?<![\w.])(?:{named})\.(\w+)\b(?!\s*\()").finditer(text, start, end):
            last = _index_end(text, match.end())
            index = text[match.end() : last].strip()[1:-1].strip()
            if last > match.end():
                yield prefix + match[1], _lanes_of(index, scope), "", match.start(), last
            elif not prefix:
                yield f"number {match[1]}", _of_world(scope), "", match.start(), last
    for match in re.compile(r"(?<![\w.])w\.at\.(\w+)\s*\(").finditer(text, start, end):
        last = paren_end(text, match.end() - 1)
        yield match[1], _lanes_by_axes(text[match.end() : last - 1].strip(), scope), "", match.start(), last
    for name, memory in scope.scalars:
        for match in re.compile(rf"(?<![\w.]){name}\b(?!\s*[.(])").finditer(text, start, end):
            if not re.search(r"&\s*$", text[start : match.start()]):
                yield f"number {memory}", _of_world(scope), "", match.start(), match.end()


def _index_end(text: str, position: int) -> int:
    """Return the end of an index behind a name; the position itself without one."""
    opening = re.compile(r"\s*\[").match(text, position)
    return block_end(text, opening.end() - 1) if opening else position


def _other(scope: Scope) -> str:
    return scope.lanes if scope.lanes in ("once", "all") else "other"


def _of_world(scope: Scope) -> str:
    return scope.lanes if scope.lanes in ("once", "all") else "world"


def _own_number(scope: Scope) -> str:
    """Return the pattern of the numbers of the lane's element."""
    patterns = [re.escape(name) for name in scope.own_numbers]
    patterns += [rf"{re.escape(name)}\.(?:index|in_role)" for name in scope.own_agents]
    return rf"(?<![\w.])(?:{'|'.join(patterns)})(?![\w.])" if patterns else r"(?!)"


def _lanes_of(index: str, scope: Scope) -> str:
    """Return the lanes that access an element of an array by its index."""
    if scope.lanes in ("once", "all"):
        return scope.lanes
    token = _own_number(scope)
    offsets = "|".join([*map(re.escape, scope.own_offsets), "gv_fetch_add"])
    if re.fullmatch(token, index) or re.search(rf"(?<![\w.])(?:{offsets})(?![\w.])(?!.*[%/])", index):
        return scope.lanes
    shifted = re.search(rf"{token}\s*[+-]|[+-]\s*{token}", index) and "*" not in index
    folded = re.search(rf"{token}.*[%/]", index)
    return scope.lanes if re.search(token, index) and not shifted and not folded else "other"


def _lanes_by_axes(indices: str, scope: Scope) -> str:
    """Return the lanes that access an element by an index for each axis; ``k / n, k % n`` is the element of the number k."""
    token = _own_number(scope)
    same_number = re.fullmatch(rf"{token}\s*/\s*(\S+)\s*,\s*{token}\s*%\s*\1", indices)
    return scope.lanes if same_number else _lanes_of(indices, scope)


def _direction(text: str, first: int, last: int) -> tuple[bool, bool]:
    """Return whether an expression is read, and whether it is written."""
    behind = re.compile(r"\s*(\+\+|--|<<=|>>=|[-+*/%&|^]=|=(?!=))").match(text, last)
    before = re.search(r"(\+\+|--)\s*$", text[max(0, first - 4) : first])
    if behind is None and before is None:
        return (re.search(r"&\s*$", text[max(0, first - 3) : first]) is None, False)
    return (behind is None or behind[1] != "=", True)
