"""Translation of expressions: operators, names, elements of arrays. Each has a type; nothing is converted silently."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_vecenv.pyhooks import names
from gpu_vecenv.pyhooks.advice import of_module
from gpu_vecenv.pyhooks.source import BUILTINS, PYTHON, HooksFile
from gpu_vecenv.pyhooks.values import ELEMENT, Access, Handle, Scope, Value, Where, float_text, int_text
from gpu_vecenv.pyhooks.vocabulary import GROUPS, NARROW, TYPES, Memory, Vocabulary

ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
OF_INTEGERS = {ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
NO_OPERATORS: dict[type, str] = {
    ast.Pow: "write pow(x, y) of gpu_vecenv.pyhooks, or x * x",
    ast.MatMult: "write the sum as a loop",
    ast.LShift: "multiply or divide by a power of 2",
    ast.RShift: "multiply or divide by a power of 2",
    ast.Invert: "write -1 - x for an i32, and `not x` for a bool",
    ast.UAdd: "leave the + out",
    ast.In: "`in` is not in the subset; write comparisons: x == 1 or x == 2",
    ast.NotIn: "`not in` is not in the subset; write comparisons: x != 1 and x != 2",
    ast.Is: "`is` is not in the subset; write ==. Numbers are never None; a number such as -1 can mean that there is none",
    ast.IsNot: "`is not` is not in the subset; write !=. Numbers are never None; a number such as -1 can mean that there is none",
}
"""Operators that are not in the subset, and the words to write instead."""

COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}

TRANSLATED = (ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare,
              ast.IfExp, ast.Call)  # fmt: skip
"""Expressions of the subset."""

ADVICE = {
    ast.List: "a list has no place in a kernel; use an array of the state or of scratch (`me.obs = [x, y]` alone takes one)",
    ast.Tuple: "a tuple is for several names at once, `x, y = y, x`, and for results of helpers",
    ast.Dict: "use a table of the spec, or `if`",
    ast.Set: "use a table of the spec, or `or`",
    ast.ListComp: "write a loop, or w.count and w.sum over agents",
    ast.GeneratorExp: "write a loop, or w.count and w.sum over agents",
    ast.SetComp: "write a loop",
    ast.DictComp: "write a loop",
    ast.Lambda: "a lambda is for w.count, w.any and w.sum; write a function",
    ast.JoinedStr: "text is for print(), which only device=\"python\" runs",
    ast.NamedExpr: "assign it in a line of its own",
    ast.Slice: "index one element at a time, in a loop",
    ast.Starred: "name each value",
    ast.Await: "hooks run to their end and wait for nothing; leave `await` out",
    ast.Yield: "hooks run to their end; a helper returns values",
    ast.YieldFrom: "hooks run to their end; a helper returns values",
}
"""Advice by kind of expression that is not in the subset: the words to write instead."""


class Expressions:
    """Expressions of one file.

    Args:
        words: names of the spec.
        file: the file.

    Attributes:
        accesses: accesses to memory since the present statement of a hook began.
        waits: True if the present statement waits for all lanes before its other accesses end.
        acting: True if code since the present helper began counts invalid actions or writes.
        writing: True if a helper that writes may be called here.
        ended: why names of locals stand for nothing, by name.
    """

    def __init__(self, words: Vocabulary, file: HooksFile) -> None:
        self.words, self.file = words, file
        self.fail, self.quoted = file.fail, file.quoted
        self.hook = ""
        self.accesses: list[Access] = []
        self.waits = False
        self.acting = False
        self.writing = False
        self.ended: dict[str, str] = {}
        self.divisors: set[str] | None = None  # names of divisors in a helper that is marked with `dividing`

    def value(self, node: ast.expr, scope: Scope) -> Value:
        """Translate an expression."""
        writing, self.writing = self.writing, False
        method = getattr(self, f"_{type(node).__name__.lower()}") if isinstance(node, TRANSLATED) else None
        if method is None:
            advice = ADVICE.get(type(node), "it is not in the subset")
            self.fail(node, f"{self.quoted(node)}: {advice}")
        if isinstance(node, ast.Call):
            self.writing = writing
        value: Value = method(node, scope)
        self.writing = False
        return value

    def of(self, kind: str, node: ast.expr, scope: Scope) -> Value:
        """Translate an expression that must have a type.

        Raises:
            HookError: another type.
        """
        value = self.value(node, scope)
        self.require(kind, node, value)
        return value

    def text(self, kind: str, node: ast.expr, scope: Scope) -> str:
        """Return the text of an expression that must have a type."""
        return self.of(kind, node, scope).text

    def condition(self, node: ast.expr, scope: Scope) -> Value:
        """Translate a condition, which is a bool."""
        value = self.value(node, scope)
        if value.type in ("i32", "f32"):
            self.fail(node, f"a condition must be a bool, and {self.quoted(node)} is {value.type}: write a comparison")
        self.require("bool", node, value)
        return value

    def require(self, kind: str, node: ast.AST, value: Value) -> None:
        """Refuse a value of another type."""
        if value.type == kind:
            return
        got = NOUNS.get(value.type, value.type)
        how = f"write {kind}(...)" if {kind, value.type} <= {"f32", "i32"} or value.type == "bool" else "write a comparison"
        if value.type not in ("f32", "i32", "bool"):
            how = "name a number of it"
        elif isinstance(value.literal, np.int32) and kind == "f32":
            how = f"write {int(value.literal)}.0"
        elif kind not in ("f32", "i32", "bool"):
            how = f"name {NOUNS.get(kind, kind)}"
        self.fail(node, f"expected {NOUNS.get(kind, kind)}, got {got} in {self.quoted(node)}; {how}")

    # ---- memory -----------------------------------------------------------------------------------------------

    def touch(self, writes: bool, memory: Memory, scope: Scope, node: ast.AST, where: Where = "all", group: str = "") -> None:
        """Note an access to memory; refuse a write that is a race by itself."""
        if scope.kind == "once" or scope.single:
            where = "once"
        elif scope.kind == "pairs":
            where = self._of_pair(memory, node, where) if writes else "all"
        if writes and where == "all":
            name = shown(memory.field)
            if scope.kind == "uniform" and scope.helper:
                why = ", because a loop in a helper is no phase" if scope.loops else ""
                self.fail(node, f"all lanes would write {name!r}{why}; call the helper in a phase or under `if w.once:`")
            if scope.kind == "uniform":
                self.fail(node, f"all lanes would write {name!r}; write it in a phase or under `if w.once:`")
            if memory.field.startswith("row "):
                self.fail(node, f"writes {name!r} of another agent in a phase; loop over its features in a phase of that agent, "
                                "`for me in w.role.NAME:`, or `for me, k in w.pairs(w.role.NAME, w.each(n)):`")  # fmt: skip
            if group:
                self.fail(node, f"writes {name!r} of another agent in a phase; gather instead: let each agent change itself")
            if memory.array:
                self.fail(node, f"writes an element of {name!r} that may be that of another lane; in a phase over the elements, "
                                "`for k in w.each(n)`, write element k, or write under `if w.once:`")  # fmt: skip
            self.fail(node, f"writes {name!r} of the world in a phase; write it under `if w.once:`")
        if writes and self.hook.startswith("env_observe") and not memory.field.startswith(("row ", "scratch ")):
            self.fail(node, f"{self.hook} writes {shown(memory.field)!r}; it writes observations and scratch only, and env_step "
                            "what lasts")  # fmt: skip
        self.acting = self.acting or writes
        self.accesses.append(Access(writes, memory.field, where, group, node))

    def _of_pair(self, memory: Memory, node: ast.AST, where: Where) -> Where:
        if not memory.field.startswith("row ") or where != "own":
            self.fail(node, f"writes {shown(memory.field)!r} in w.pairs(), where several lanes have the same agent; only "
                            "features of rows "
                            "of the first agent may be written")  # fmt: skip
        return "pair"

    def read(self, node: ast.AST, memory: Memory, text: str, **facts: Any) -> Value:
        """Return the value of a number in memory."""
        wide = memory.dtype == "float64" and not memory.group
        kind = "f32" if wide else TYPES.get(memory.dtype)
        if kind is None:
            self.fail(node, f"{self.quoted(node)} is {memory.dtype}, which hooks in Python do not have; they have bool, "
                            "i32 and f32. "
                            "Declare it with another dtype, or write the hooks in C++")  # fmt: skip
        cast = "(float)" if wide else "(gv_i32)" if memory.dtype in NARROW else ""
        return Value(cast + text, kind, dtype=memory.dtype, natural=memory.dtype in ("uint8", "uint16"), **facts)

    def place(self, node: ast.expr, scope: Scope) -> Value:
        """Translate a target in memory: a member of an agent, a number of the state, or an element."""
        if isinstance(node, ast.Attribute):
            base = self.value(node.value, scope)
            if base.type == "agent":
                return self._member_place(node, base, scope)
            if base.member == "state" and (memory := self.words.state.get(node.attr)) and not memory.array:
                self.touch(True, memory, scope, node)
                return self._writable(node, memory, f"{base.text}.{node.attr}")
            if base.type == "names":
                self.fail(node, self._unwritable(node, base))
        if isinstance(node, ast.Subscript):
            return self._element(node, scope, writes=True)
        self.fail(node, f"cannot assign to {self.quoted(node)}")

    def _unwritable(self, node: ast.Attribute, base: Value) -> str:
        if base.member == "state":
            memory = self.words.state.get(node.attr)
            if memory is None:
                return f"the spec has no {node.attr!r} in its state; it has {_listed(self.words.state)}"
            return f"{node.attr!r} is an array; write one of its elements"
        if base.member == "w" and node.attr == "t":
            return "w.t counts steps by itself; a hook reads it"
        return f"cannot assign to {self.quoted(node)}; hooks write the state, scratch, rewards, observations and masks"

    def _member_place(self, node: ast.Attribute, base: Value, scope: Scope) -> Value:
        if node.attr == "reward" and self.hook != "env_step" and not self.hook.startswith("env_observe"):
            self.fail(node, "'reward' exists in env_step only")
        memory = self._member_memory(node, base)
        if memory.array:
            self.fail(node, f"{node.attr!r} of an agent is an array; write one of its elements")
        assert base.handle is not None
        self.touch(True, memory, scope, node, base.handle.where, memory.group or base.handle.group)
        return self._writable(node, memory, f"{base.text}.{node.attr}")

    def _writable(self, node: ast.AST, memory: Memory, text: str) -> Value:
        if memory.dtype not in TYPES:
            self.read(node, replace(memory, group="of the state"), text)
        return Value(text, TYPES[memory.dtype], dtype=memory.dtype)

    def _member_memory(self, node: ast.Attribute, base: Value) -> Memory:
        assert base.handle is not None
        group = base.handle.group
        members = self.words.members(group) | {"reward": self.words.reward(group)}
        if node.attr in ("index", "in_role"):
            self.fail(node, f"{node.attr!r} of an agent is fixed")
        if node.attr == "action" and self.words.acts(group):
            self.fail(node, "'action' of an agent is what its policy chose; a hook reads it, `move = me.action.index()`")
        if node.attr in self.words.rows(group):
            whole = "me.obs = [x, y] writes all of it, and " if node.attr == "obs" else ""
            self.fail(node, f"{node.attr!r} of an agent is a row; {whole}me.{node.attr}[k] = x writes one element")
        if node.attr not in members:
            self.fail(node, f"an agent of {_range_text(group)} has no {node.attr!r}; it has {self._all_members(group)}")
        return members[node.attr]

    def _all_members(self, group: str) -> str:
        indices = ["index", *(["in_role"] if self.words.numbered(group) else [])]
        acts = ["action"] if self.words.acts(group) else []
        return _listed([*self.words.members(group), *indices, "reward", *acts, *self.words.rows(group)])

    def _element(self, node: ast.Subscript, scope: Scope, writes: bool) -> Value:
        base = self.value(node.value, scope)
        if base.type == "axes":
            return self._element_by_axes(node, base, scope, writes)
        if isinstance(node.slice, ast.Tuple):
            name = base.text.rpartition(".")[2] if base.member in self.words.axes else "NAME"
            self.fail(node, f"{self.quoted(node)} has {len(node.slice.elts)} indices; w.at.{name}[...] takes one for each axis "
                            "of a field of the state, and other arrays take one")  # fmt: skip
        index = self._index(node, node.slice, scope)
        if base.type == "range" and not writes:
            return Value(f"{base.text}[{index.text}]", "agent", handle=base.handle, once=index.once)
        if base.type == "row":
            if not writes:
                self.fail(node, f"rows of observations and masks are written, not read; read what {self.quoted(node)} shows")
            return self._row_element(node, base, index, scope)
        if base.type != "array":
            what = NOUNS.get(base.type, base.type)
            self.fail(node, f"{self.quoted(node.value)} is {what}, which has no elements" if not writes else
                      f"cannot assign to {self.quoted(node)}")  # fmt: skip
        memory = Memory(base.member, base.dtype, array=True, group="" if base.handle is None else base.handle.group)
        if writes and base.member == "table":
            self.fail(node, f"{self.quoted(node.value)} is a table, which hooks read only")
        if base.member != "table":
            self._touch_element(writes, memory, base.handle, index, scope, node)
        text = f"{base.text}[{index.text}]"
        if writes:
            return replace(self._writable(node, memory, text), once=index.once)
        stored = Memory(base.member, base.dtype, group="" if base.member == "table" else "of the state")
        return self.read(node, stored, text, static=base.member == "table" and index.static, once=index.once)

    def _index(self, node: ast.AST, part: ast.expr, scope: Scope) -> Value:
        index = self.of("i32", part, scope)
        if index.literal is not None and index.literal < 0:
            self.fail(node, f"{self.quoted(node)}: an index counts from the beginning, from 0 on")
        return index

    def _element_by_axes(self, node: ast.Subscript, base: Value, scope: Scope, writes: bool) -> Value:
        """Translate `w.at.cells[y, x]`, an element by one index for each axis. Any lane may access it."""
        parts, axes = getattr(node.slice, "elts", [node.slice]), self.words.axes[base.member]
        if len(parts) != len(axes):
            shape = ", ".join(map(str, axes))
            self.fail(node, f"{self.quoted(node)}: expected an index for each of the axes ({shape}), got {len(parts)}")
        indices = [self._index(node, part, scope) for part in parts]
        if writes:
            self._refuse_own_by_axes(node, parts, indices, base.member, scope)
        self.touch(writes, Memory(base.member, base.dtype, array=True), scope, node)
        text, once = f"{base.text}({', '.join(index.text for index in indices)})", any(index.once for index in indices)
        memory = Memory(base.member, base.dtype, group="of the state")
        return replace(self._writable(node, memory, text), once=once) if writes else self.read(node, memory, text, once=once)

    def _refuse_own_by_axes(
        self, node: ast.AST, parts: list[ast.expr], indices: list[Value], name: str, scope: Scope
    ) -> None:
        """Refuse `w.at.memory[me.index, 0] = x` in a phase over agents, which has a name that is known to be the agent's own."""
        if scope.kind != "phase" or scope.single or not indices[0].counts or not isinstance(parts[0], ast.Attribute):
            return
        handle = self.value(parts[0].value, scope).handle
        if handle is not None and name in self.words.members(handle.group):
            k = ast.unparse(parts[1]) if len(parts) == 2 else "k"
            self.fail(node, f"writes an element of {name!r} that may be that of another lane; that of the agent itself is "
                            f"{ast.unparse(parts[0].value)}.{name}[{k}]")  # fmt: skip

    def _touch_element(
        self, writes: bool, memory: Memory, handle: Handle | None, index: Value, scope: Scope, node: ast.AST
    ) -> None:
        """Note an access to an element of an agent's array, or of an array of the world, of which each lane owns its number."""
        if handle is not None:
            self.touch(writes, memory, scope, node, handle.where, handle.group)
        elif index.counts and scope.kind == "phase":
            self.touch(writes, memory, scope, node, "own", ELEMENT)
        else:
            self.touch(writes, memory, scope, node)

    def _row_element(self, node: ast.AST, row: Value, index: Value, scope: Scope) -> Value:
        memory = Memory(row.member, row.dtype, array=True)
        if row.handle is None:  # a shared part
            self._touch_element(True, memory, None, index, scope, node)
        else:
            self.touch(True, memory, scope, node, row.handle.where, row.handle.group)
        return Value(f"{row.text}[{index.text}]", TYPES[row.dtype], once=index.once)

    # ---- names ------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name, scope: Scope) -> Value:
        name = node.id
        if name == "w":
            return Value("w", "names", member="w")
        if name in scope.names:
            return scope.names[name]
        if name in scope.region.types:
            self.fail(node, f"{name!r} is not assigned on every path to this line")
        if name in self.file.constants:
            return self.number(self.file.constants[name])
        if name in self.ended:
            self.fail(node, f"{name!r} {self.ended[name]}")
        if name in self.file.imported or name in self.file.functions or name in BUILTINS:
            self.fail(node, f"{name!r} is a function; call it")
        self.fail(node, self.unknown(name))

    def unknown(self, name: str) -> str:
        """Return the sentence for a name that hooks do not have."""
        if name in self.file.foreign:
            module = self.file.foreign[name]
            if instead := of_module(name, module):
                return f"{name!r} of {module} is not in the subset; {instead}"
            return (f"{name!r} comes from {module}; hooks use names of gpu_vecenv.pyhooks and "
                    "constants of their file, "
                    "and what the spec computes arrives as parameter, Constant or Table")  # fmt: skip
        if name in names.__all__:
            return f"{name!r} is not imported: from gpu_vecenv.pyhooks import {name}"
        if name in PYTHON:
            return (f"{name!r} of Python is not in the subset; hooks call {', '.join(sorted(BUILTINS))}, helpers, "
                    "and what they import from gpu_vecenv.pyhooks")  # fmt: skip
        return f"{name!r} is unknown here; it is no local that is assigned on every path, no constant and no import"

    def number(self, value: Any) -> Value:
        """Return a literal or a constant."""
        if isinstance(value, bool):
            return Value("true" if value else "false", "bool", static=True)
        if isinstance(value, np.int32):
            return Value(int_text(int(value)), "i32", static=True, literal=value, natural=bool(value >= 0))
        return Value(float_text(value), "f32", static=True, literal=value)

    def _constant(self, node: ast.Constant, scope: Scope) -> Value:
        return self.number(self.file.literal(node, node.value))

    def refuse_foreign(self, node: ast.Attribute, scope: Scope, called: bool = False) -> None:
        """Refuse a name of another module."""
        raise NotImplementedError

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        self.refuse_foreign(node, scope)
        base = self.value(node.value, scope)
        if base.type == "agent":
            return self._agent_member(node, base, scope)
        if base.type == "names":
            return self._of_names(node, base, scope)
        known = METHODS.get(base.type)
        what = NOUNS.get(base.type, base.type)
        self.fail(node, f"{self.quoted(node)}: {what} has {_listed(known)}, which are called" if known else
                  f"{self.quoted(node)}: {what} has no names")  # fmt: skip

    def _agent_member(self, node: ast.Attribute, base: Value, scope: Scope) -> Value:
        handle, name, text = base.handle, node.attr, f"{base.text}.{node.attr}"
        assert handle is not None
        mine = handle.where == "own" and scope.kind == "phase"
        if name == "index":
            return Value(text, "i32", natural=True, once=base.once, counts=mine and handle.group == "agents")
        if name == "in_role" and self.words.numbered(handle.group):
            return Value(text, "i32", natural=True, once=base.once, counts=mine)
        if name == "in_role":
            self.fail(node, "'in_role' is known of agents of w.role.NAME; agents of w.agents have 'index'")
        if name in ("action", "reward") and self.hook != "env_step":
            self.fail(node, f"{name!r} exists in env_step only")
        if name == "action" and self.words.acts(handle.group):
            return Value(text, "action", handle=handle)
        rows = self.words.rows(handle.group)
        if name in rows:
            if not self.hook.startswith("env_observe"):
                self.fail(node, f"{name!r} exists in env_observe only")
            row = rows[name]
            return Value(text, "row", handle=handle._replace(group=row.group), member=row.field, dtype=row.dtype)
        memory = self._member_memory(node, base)
        group = memory.group or handle.group
        if memory.array:
            facts: dict[str, Any] = {"member": memory.field, "dtype": memory.dtype, "once": base.once}
            return Value(text, "array", handle=handle._replace(group=group), **facts)
        self.touch(False, memory, scope, node, handle.where, group)
        return self.read(node, memory, text, once=base.once)

    def _of_w(self, node: ast.Attribute) -> Value:
        """Translate what `w` itself has."""
        name, text = node.attr, f"w.{node.attr}"
        if name == "t":
            return Value(text, "i32", natural=True)
        if name in GROUPS:
            return Value(text, "names", member=name)
        if name == "agents":
            return Value(text, "range", handle=Handle("all", "agents"), static=True)
        if name == "once":
            self.fail(node, "`if w.once:` stands by itself, outside phases; write other conditions inside it")
        known = ["agents", "t", "once", *GROUPS, *METHODS["w"]]
        self.fail(node, f"w has no {name!r}; it has {_listed(known)}" if name not in METHODS["w"] else f"w.{name} is called")

    def _of_names(self, node: ast.Attribute, base: Value, scope: Scope) -> Value:
        if base.member == "w":
            return self._of_w(node)
        name, text, words = node.attr, f"{base.text}.{node.attr}", self.words
        if base.member == "role" and name in words.roles:
            return Value(text, "range", handle=Handle("all", name), static=True)
        if base.member == "params" and name in words.params:
            return self._param(node, text)
        if base.member == "sizes" and name in words.sizes or base.member == "scratch" and name in words.rooms:
            return Value(text, "i32", static=True, natural=True)
        if base.member == "options" and name in words.options:
            return Value(text, "f32", static=True)
        if base.member == "tables" and name in words.tables:
            return Value(text, "array", member="table", dtype=words.tables[name])
        if base.member == "scratch" and name in words.scratch:
            return Value(text, "array", member=words.scratch[name].field, dtype=words.scratch[name].dtype)
        if base.member == "at" and name in words.axes:
            return Value(text, "axes", member=name, dtype=words.state[name].dtype)
        if base.member == "state" and name in words.state:
            memory = words.state[name]
            if memory.array:
                return Value(text, "array", member=memory.field, dtype=memory.dtype)
            self.touch(False, memory, scope, node)
            return self.read(node, replace(memory, group="of the state"), text)
        known: dict[str, Any] = {
            "role": words.roles, "params": words.params, "options": words.options, "tables": words.tables, "sizes": words.sizes,
            "scratch": [*words.scratch, *words.rooms], "state": words.state, "at": words.axes, "record": words.metrics,
        }  # fmt: skip
        self.fail(node, f"the spec has no {name!r} in w.{base.member}; it has {_listed(known[base.member])}")

    def _param(self, node: ast.Attribute, text: str) -> Value:
        dtype, static = self.words.params[node.attr]
        low = {param.name: param.low for param in self.words.spec.params}.get(node.attr, -1.0)
        value = self.read(node, Memory("", dtype), text, static=static)
        return replace(value, natural=value.type == "i32" and low >= 0)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        return self._element(node, scope, writes=False)

    # ---- operators --------------------------------------------------------------------------------------------

    def _binop(self, node: ast.BinOp, scope: Scope) -> Value:
        operator = type(node.op)
        if operator in NO_OPERATORS:
            self.fail(node, f"{self.quoted(node)}: {NO_OPERATORS[operator]}")
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        for part, value in ((node.left, left), (node.right, right)):
            if value.type not in ("i32", "f32"):
                extra = "; i32(...) makes a bool 0 or 1, and `and` and `or` join bools" if value.type == "bool" else ""
                self.fail(node, f"{self.quoted(part)} in {self.quoted(node)} is {NOUNS.get(value.type, value.type)}, no "
                                f"number{extra}")  # fmt: skip
        if left.type != right.type:
            how = _conversion_of(left, right)
            self.fail(node, f"{self.quoted(node)} mixes {left.type} and {right.type}; {how}")
        kind = left.type
        facts: dict[str, Any] = {"static": left.static and right.static, "once": left.once or right.once}
        if operator in ARITHMETIC:
            natural = kind == "i32" and left.natural and right.natural and operator is not ast.Sub
            return Value(f"({left.text} {ARITHMETIC[operator]} {right.text})", kind, natural=natural, **facts)
        if operator is ast.Div:
            if kind == "i32":
                self.fail(node, f"{self.quoted(node)} divides integers; write // to round down, or f32(...)")
            return Value(f"({left.text} / {self._divisor(node.right, right)})", kind, **facts)
        if kind == "f32":
            other = {"%": "mod(x, y)", "//": "floor(x / y)"}.get(OF_INTEGERS[operator], "i32(...)")
            self.fail(node, f"{self.quoted(node)}: {OF_INTEGERS[operator]} is for i32; for f32 there is {other}")
        return self._of_integers(node, left, right, facts)

    def _divisor(self, node: ast.expr, value: Value) -> str:
        """Text of a divisor; in a helper marked with `dividing`, one that shares the test."""
        if self.divisors is None:
            return value.text
        return f"{value.text}_Divisor" if isinstance(node, ast.Name) and node.id in self.divisors else f"by({value.text})"

    def _of_integers(self, node: ast.BinOp, left: Value, right: Value, facts: dict[str, Any]) -> Value:
        operator = OF_INTEGERS[type(node.op)]
        if operator in ("//", "%"):
            if right.literal == 0:
                self.fail(node, f"{self.quoted(node)} divides by 0")
            natural = left.natural and right.natural
            if natural:
                text = f"({left.text} {operator[0]} {right.text})"
            else:
                text = f"{'gv_floor_quotient' if operator == '//' else 'gv_floor_rest'}({left.text}, {right.text})"
            return Value(text, "i32", natural=natural or operator == "%" and right.natural, **facts)
        return Value(f"({left.text} {operator} {right.text})", "i32", natural=left.natural and right.natural, **facts)

    def _unaryop(self, node: ast.UnaryOp, scope: Scope) -> Value:
        if isinstance(node.op, ast.Not):
            value = self.condition(node.operand, scope)
            return Value(f"(!{value.text})", "bool", static=value.static, once=value.once)
        if type(node.op) in NO_OPERATORS:
            self.fail(node, f"{self.quoted(node)}: {NO_OPERATORS[type(node.op)]}")
        if isinstance(node.operand, ast.Constant) and isinstance(number := node.operand.value, int | float):
            if not isinstance(number, bool):
                return self.number(self.file.literal(node, -number))
        value = self.value(node.operand, scope)
        if value.type not in ("i32", "f32"):
            self.require("f32", node, value)
        return Value(f"(-{value.text})", value.type, static=value.static, once=value.once)

    def _boolop(self, node: ast.BoolOp, scope: Scope) -> Value:
        branch = replace(scope, branch=True)
        values = [self.condition(part, branch if k else scope) for k, part in enumerate(node.values)]
        operator = " && " if isinstance(node.op, ast.And) else " || "
        text = operator.join(value.text for value in values)
        return Value(f"({text})", "bool", static=all(v.static for v in values), once=any(v.once for v in values))

    def _compare(self, node: ast.Compare, scope: Scope) -> Value:
        for operator in node.ops:
            if type(operator) in NO_OPERATORS:
                self.fail(node, f"{self.quoted(node)}: {NO_OPERATORS[type(operator)]}")
        branch = replace(scope, branch=True)
        operands = [node.left, *node.comparators]
        values = [self.value(part, branch if k > 1 else scope) for k, part in enumerate(operands)]
        parts = []
        for k, operator in enumerate(node.ops):
            left, right = values[k], values[k + 1]
            if left.type not in ("i32", "f32", "bool") or right.type not in ("i32", "f32", "bool"):
                self.fail(node, f"{self.quoted(node)} compares {NOUNS.get(left.type, left.type)} with "
                                f"{NOUNS.get(right.type, right.type)}; compare numbers, such as indices of agents")  # fmt: skip
            if left.type != right.type:
                how = _conversion_of(left, right)
                self.fail(node, f"{self.quoted(node)} compares {left.type} with {right.type}; {how}")
            if left.type == "bool" and not isinstance(operator, ast.Eq | ast.NotEq):
                self.fail(node, f"{self.quoted(node)}: bools are compared with == and !=")
            parts.append(f"{left.text} {COMPARISONS[type(operator)]} {right.text}")
        if any(value.once for value in values[1:-1]):
            self.fail(node, f"{self.quoted(node)} would evaluate the middle twice; assign it to a local first")
        text = parts[0] if len(parts) == 1 else " && ".join(f"({part})" for part in parts)
        return Value(f"({text})", "bool", static=all(v.static for v in values), once=any(v.once for v in values))

    def _ifexp(self, node: ast.IfExp, scope: Scope) -> Value:
        test = self.condition(node.test, scope)
        branch = replace(scope, branch=scope.branch or not test.static)
        one, two = self.value(node.body, branch), self.value(node.orelse, branch)
        if one.type not in ("i32", "f32", "bool"):
            self.fail(node, f"{self.quoted(node)} chooses {NOUNS.get(one.type, one.type)}; choose a number, such as its index")
        if one.type != two.type:
            self.fail(node, f"{self.quoted(node)} is {one.type} or {NOUNS.get(two.type, two.type)}; both must have one type")
        facts: dict[str, Any] = {"static": test.static and one.static and two.static, "once": test.once or one.once or two.once}
        return Value(f"({test.text} ? {one.text} : {two.text})", one.type, natural=one.natural and two.natural, **facts)


def shown(field: str) -> str:
    """Return the name of memory for messages."""
    return field.removeprefix("scratch ").removeprefix("row ")


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"


def _conversion_of(left: Value, right: Value) -> str:
    if left.literal is not None or right.literal is not None:
        return "write 2.0 for 2"
    return "convert with f32(...) or i32(...)"


def _range_text(group: str) -> str:
    return "w.agents" if group == "agents" else f"w.role.{group}"


NOUNS = {"f32": "f32", "i32": "i32", "bool": "bool", "agent": "an agent", "range": "a range of agents", "array": "an array",
         "axes": "an array by axes", "row": "a row", "draw": "a draw", "action": "an action", "names": "a group of names",
         "tuple": "several values", "none": "nothing", "record": "a metric"}  # fmt: skip
"""Types in messages."""

METHODS = {
    "w": ["each", "pairs", "draw", "count", "any", "sum", "terminate", "truncate", "truncate_at", "barrier"],
    "action": ["index", "indices", "value"],
    "draw": ["uniform", "below"],
    "range": ["count", "shared"],
}
"""Names of what is called, by type."""
