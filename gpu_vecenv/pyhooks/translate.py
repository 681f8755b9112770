"""Translation of a file of hooks to the text of a kernel: hooks with their phases, barriers between them, and helpers."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from typing import NamedTuple

from gpu_vecenv.pyhooks.calls import c_name
from gpu_vecenv.pyhooks.expressions import shown
from gpu_vecenv.pyhooks.source import HOOKS, TOO_DEEP, HooksFile
from gpu_vecenv.pyhooks.statements import Names, Results, Statements, new_region, tuple_struct, tuple_type
from gpu_vecenv.pyhooks.values import C_TYPES, Access, Handle, Region, Scope, Value
from gpu_vecenv.pyhooks.vocabulary import Vocabulary
from gpu_vecenv.spec.env_spec import EnvSpec

PARAMETERS = {"f32": "f32", "i32": "i32", "bool": "bool", "Agent": "agent", "World": "names"}
"""Types of parameters of helpers by their annotations."""


ROWS = "rows"
"""Array of scratch in which ``w.pairs`` gathers rows."""


class Helper(NamedTuple):
    """A helper as its callers need it.

    Attributes:
        types: types of its results, separated by commas; empty for none.
        accesses: what it accesses, for these arguments.
        acts: True if it counts invalid actions or writes.
        text: its text in C++.
    """

    types: str
    accesses: tuple[Access, ...]
    acts: bool
    text: str


class Translator(Statements):
    """Translation of one file.

    Attributes:
        barriers: lines of the file before which barriers were placed, with the names of the hooks.
    """

    def __init__(self, spec: EnvSpec, file: HooksFile) -> None:
        super().__init__(Vocabulary(spec), file)
        self.out: list[str] = []
        self.since: list[Access] = []
        self.observed: list[Access] = []  # writes to rows of observations in the present hook
        self.barriers: list[tuple[str, int]] = []
        self.active: list[str] = []
        self.helpers: dict[tuple, Helper] = {}
        self.written: dict[str, str] = {}

    def translate(self) -> str:
        """Return the text of all hooks."""
        for name in HOOKS:
            if name in self.file.functions:
                self._hook(self.file.functions[name])
        self._check_calls()
        return "\n".join(self.out) + "\n"

    def _check_calls(self) -> None:
        """Refuse a helper that no hook calls. It has no arguments of known types, so nothing would check it."""
        called_names = {*HOOKS, *(name for name, *_ in self.helpers)}
        for name, node in self.file.functions.items():
            if name not in called_names:
                self.file.where = name
                self.fail(node, f"no hook calls {name}(), so it cannot be checked; call it, or remove it from the file")

    # ---- hooks ------------------------------------------------------------------------------------------------

    def _hook(self, node: ast.FunctionDef) -> None:
        self.file.where = self.hook = node.name
        args = node.args
        if [one.arg for one in args.args] != ["w"] or args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg:
            self.fail(node, "a hook has one argument, w")
        if args.defaults or node.decorator_list:
            self.fail(node, "a hook has neither defaults nor decorators")
        self.since, self.observed, self.ended, self.accesses = [], [], {}, []
        region, lines = new_region(node.body), list[str]()
        self._uniform(node.body, Scope("uniform", region, {}), lines)
        self.out += [self.line(node), f"GV_FN void {node.name}(GvWorld& w) {{", *_hoisted(region, 1), *lines, "}"]

    def _uniform(self, body: list[ast.stmt], scope: Scope, lines: list[str]) -> Names:
        """Translate statements that all lanes reach."""
        for node in body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                continue
            self.accesses, self.waits = [], False
            translated: list[str] = []
            if isinstance(node, ast.If) and ast.unparse(node.test) == "w.once":
                self._once(node, scope, translated)
            elif isinstance(node, ast.If):
                scope.names = self._uniform_if(node, scope, lines)
                continue
            elif isinstance(node, ast.For) and not self._counts(node):
                self._phase(node, scope, translated)
            elif isinstance(node, ast.Expr) and ast.unparse(node.value) == "w.barrier()":
                if not scope.static:
                    self.fail(node, "w.barrier() waits for all lanes, and some worlds would skip it")
                translated, self.since = [f"{'    ' * scope.depth}w.barrier();"], []
            else:
                names = self.statement(node, scope, translated)
                scope.names = scope.names if names is None else names
            self._order(node, scope, lines)
            lines += translated
        return scope.names

    def _counts(self, node: ast.For) -> bool:
        return isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range"

    def _order(self, node: ast.stmt, scope: Scope, lines: list[str]) -> None:
        """Place a barrier before a statement that accesses what another lane has accessed since the last barrier."""
        if any(new.conflicts(old) for new in self.accesses for old in self.since):
            if not scope.static:
                self.fail(node, "needs a barrier inside an `if` on a value that differs between worlds; move it out of the `if`")
            lines.append(f"{'    ' * scope.depth}w.barrier();")
            self.barriers.append((self.hook, node.lineno))
            self.since = []
        if self.waits:
            self.since = []
        self.observed += [access for access in self.accesses if access.writes and access.field.startswith("row obs")]
        self.since = list(dict.fromkeys(self.since + self.accesses))

    def _once(self, node: ast.If, scope: Scope, lines: list[str]) -> None:
        if node.orelse:
            self.fail(node, "`if w.once:` has no else; other lanes wait")
        region = new_region(node.body)
        inner = Scope("once", region, dict(scope.names), scope.depth + 1)
        body: list[str] = []
        self.block(node.body, inner, body)
        pad = "    " * scope.depth
        lines += [self.line(node), f"{pad}if (w.once) {{", *_hoisted(region, inner.depth), *body, f"{pad}}}"]
        self._end_of(region, scope, node)

    def _uniform_if(self, node: ast.If, scope: Scope, lines: list[str]) -> dict[str, Value]:
        test = self.condition(node.test, scope)
        self._order(node, scope, lines)
        pad, static = "    " * scope.depth, scope.static and test.static
        before, ends, since = list(self.since), list[Names](), list[Access]()
        for head, body in ((f"if ({test.text}) {{", node.body), ("else {", node.orelse)):
            if body:
                lines += [self.line(node)] * (head != "else {") + [pad + head]
            self.since = list(before)
            ends.append(self._uniform(body, scope.block(static=static), lines))
            since += self.since
            if body:
                lines.append(pad + "}")
        self.since = list(dict.fromkeys(since))
        return self.joined(scope, *ends) or {}

    def _end_of(self, region: Region, scope: Scope, node: ast.AST, *names: str) -> None:
        """Note the locals that end with a phase."""
        line = node.lineno  # type: ignore[attr-defined]
        why = f"was local to the block at line {line}, and lanes have different values; keep it in w.scratch or in the state"
        self.ended |= {name: why for name in (*region.types, *region.loops, *names) if name not in scope.names}

    # ---- phases -----------------------------------------------------------------------------------------------

    def _phase(self, node: ast.For, scope: Scope, lines: list[str]) -> None:
        self.check_loop(node)
        if not scope.static:
            self.fail(node, "a phase inside an `if` on a value that differs between worlds; put the `if` into the phase")
        region = new_region(node.body)
        inner = Scope("phase", region, dict(scope.names), scope.depth + 1, loops=("phase",))
        if isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "w.pairs":
            head, tail, names = self._pairs(node, scope, inner)
        else:
            head, tail, names = self._lanes(node, scope, inner)
        body: list[str] = []
        self.block(node.body, inner, body)
        pad = "    " * scope.depth
        lines += [self.line(node), pad + head, *_hoisted(region, inner.depth), *body, pad + tail]
        self._check_races(node)
        if inner.kind == "pairs":
            self._check_gathered(node)
        self._end_of(region, scope, node, *names)

    def _variable(self, node: ast.AST, target: ast.expr, scope: Scope) -> str:
        if not isinstance(target, ast.Name):
            self.fail(node, "this loop has one variable")
        self.refuse_name(target, target.id)
        if target.id in scope.names:
            self.fail(node, f"{target.id!r} is a local of all lanes; the variable of a phase needs another name")
        return target.id

    def _lanes(self, node: ast.For, scope: Scope, inner: Scope) -> tuple[str, str, list[str]]:
        """Open a phase over agents or numbers."""
        name = self._variable(node, node.target, scope)
        text, group, count = self.elements(node.iter, scope)
        inner.single = self._alone(group)
        if count is None:
            inner.names[name] = Value(c_name(name), "agent", handle=Handle("own", group))
            return f"for (auto {c_name(name)} : {text}) {{", "}", [name]
        inner.names[name] = Value(c_name(name), "i32", counts=True, natural=True)
        return f"for (gv_i32 {c_name(name)} : {text}) {{", "}", [name]

    def _pairs(self, node: ast.For, scope: Scope, inner: Scope) -> tuple[str, str, list[str]]:
        """Open a phase over pairs of an agent and another element, which writes rows of the agents."""
        assert isinstance(node.iter, ast.Call)
        parts = self.arguments(node.iter, 1, 2)
        ranges = [self.elements(part, scope) for part in parts]
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else []
        if ranges[0][2] is not None or len(targets) != 2:
            self.fail(node, "a phase over pairs is `for me, it in w.pairs(w.agents):`, where the first may be those of a role")
        if not self.hook.startswith("env_observe"):
            self.fail(node, "w.pairs() writes rows of observations; in other hooks a phase over agents loops over the others")
        me, it = (self._variable(node, target, scope) for target in targets)
        if me == it:
            self.fail(node, f"{me!r} is the name of both agents of a pair; choose another name")
        inner.kind, inner.loops = "pairs", ("pairs",)
        inner.names[me] = Value(c_name(me), "agent", handle=Handle("own", ranges[0][1]))
        if ranges[-1][2] is None:
            inner.names[it] = Value(c_name(it), "agent", handle=Handle("all", ranges[-1][1]))
        else:
            inner.names[it] = Value(c_name(it), "i32", natural=True)
        if ROWS in self.words.scratch:  # pairs gather rows there
            self.accesses.append(Access(True, self.words.scratch[ROWS].field, "pair", "", node))
        over = ", ".join(text for text, _, _ in ranges)
        return f"GV_LOOP for (auto [{c_name(me)}, {c_name(it)}] : w.pairs({over})) {{", "}", [me, it]

    def _check_races(self, node: ast.stmt) -> None:
        """Refuse a phase in which a lane reads what another one writes."""
        for access in self.accesses:
            if access.where != "all":
                continue
            if any(other.where == "own" and access.conflicts(other) for other in self.accesses):
                name = shown(access.field)
                self.fail(access.node, f"the phase of line {node.lineno} writes {name!r} of its own element and reads that of "
                                       "others; write in one phase and read in the next")  # fmt: skip

    def _check_gathered(self, node: ast.stmt) -> None:
        """Refuse pairs behind other features of the same rows, over which the gathered rows would be copied."""
        if ROWS in self.words.scratch and any(new.conflicts(old) for new in self.accesses for old in self.observed):
            self.fail(node, "w.pairs() gathers whole rows in w.scratch.rows and copies them over features that lines above "
                            "have written; write those behind this loop")  # fmt: skip

    # ---- helpers ----------------------------------------------------------------------------------------------

    def helper(self, node: ast.Call, function: ast.FunctionDef, scope: Scope, writing: bool) -> Value:
        """Translate a call of a helper, and the helper for these arguments."""
        name = function.name
        if name in HOOKS:
            self.fail(node, f"{name}() is a hook, which the kernel calls; put what both need into a function")
        if name in self.active:
            self.fail(node, f"{name}() calls itself; recursion is not in the subset. Write a loop")
        parameters = self._parameters(function)
        parts = self.arguments(node, len(parameters))
        values = [self.value(part, scope) for part in parts]
        for (_, kind), part, value in zip(parameters, parts, values, strict=True):
            if value.type != kind or kind == "names" and value.member != "w":
                if kind in ("names", "agent"):
                    expected = "w" if kind == "names" else "an agent"
                    self.fail(part, f"{name}() takes {expected}, got {self.quoted(part)}")
                self.require(kind, part, value)
        facts = tuple((value.type, value.handle, value.counts) for value in values)
        key = (name, self.hook, scope.kind, scope.single, facts)  # each hook allows other things
        if key not in self.helpers:
            self.helpers[key] = self._translated(function, parameters, values, scope)
        result = self.helpers[key]
        if any(access.writes for access in result.accesses) and not writing:
            self.fail(node, f"{name}() changes the state; call it in a statement of its own, or assign its result to a local")
        self.accesses += result.accesses
        self.acting = self.acting or result.acts
        text = f"GvPythonHooks::{c_name(name)}({', '.join(value.text for value in values)})"
        once = result.acts or any(value.once for value in values)
        kinds = result.types.split(",")
        if len(kinds) > 1:
            return Value(text, "tuple", once=once, member=result.types)
        return Value(text, kinds[0] or "none", once=once)

    def _parameters(self, function: ast.FunctionDef) -> list[tuple[str, str]]:
        args = function.args
        if args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg or args.defaults:
            self.fail(function, f"parameters of {function.name}() are given by place and have no defaults")
        parameters = []
        for one in args.args:
            text = ast.unparse(one.annotation) if one.annotation else ""
            kind = "names" if one.arg == "w" and not text else PARAMETERS.get(self.file.imported.get(text, text), "")
            if kind == "names" and one.arg != "w":
                self.fail(function, f"the world is called w in every function, got {one.arg!r}")
            if not kind:
                self.fail(function, f"parameter {one.arg!r} of {function.name}() needs a type: Agent, f32, i32 or bool")
            if text and text != "bool" and text not in self.file.imported:
                self.fail(function, f"{text!r} is not imported: from gpu_vecenv.pyhooks import {text}")
            parameters.append((one.arg, kind))
        return parameters

    def _translated(
        self, function: ast.FunctionDef, parameters: list[tuple[str, str]], values: list[Value], scope: Scope
    ) -> Helper:
        """Translate a helper for arguments of which these facts are known."""
        callers = self.file.where, self.accesses, self.acting, self.divisors, self.results, self.ended
        self.file.where, self.accesses, self.acting, self.ended = function.name, [], False, {}
        self.results = results = Results(function.name)
        self.active.append(function.name)
        region = new_region(function.body)
        inner = Scope(scope.kind, region, {}, single=scope.single, helper=True)
        for (name, kind), value in zip(parameters, values, strict=True):
            if name != "w":
                self.refuse_name(function, name)
                counts = value.counts and not region.assigned.get(name)
                inner.names[name] = Value(c_name(name), kind, handle=value.handle, counts=counts)
                region.types |= {name: kind} if kind in C_TYPES else {}
        dividing = self._is_dividing(function)
        self.divisors = _divisors(function, [name for name, _ in parameters], region) if dividing else None
        inner.depth = 1 + dividing
        divided = [name for name, _ in parameters if name in (self.divisors or ())]
        lines: list[str] = []
        reached = self.block(function.body, inner, lines) is not None
        types = results.types or ""
        if reached and types:
            self.fail(function, f"{function.name}() does not return on every path")
        self._check_results(function, types, dividing)
        body = [*_hoisted(region, inner.depth), *lines]
        if dividing:
            body = _run_again(body, [name for name, _ in parameters], region, divided)
        text = self._definition(function, parameters, types, body)
        result = Helper(types, tuple(dict.fromkeys(self.accesses)), self.acting, text)
        self.active.pop()
        self.file.where, self.accesses, self.acting, self.divisors, self.results, self.ended = callers
        self.written.setdefault(function.name, text)
        return result

    def _is_dividing(self, function: ast.FunctionDef) -> bool:
        for decorator in function.decorator_list:
            if self.file.imported.get(ast.unparse(decorator)) != "dividing":
                self.fail(function, f"{self.quoted(decorator)} is not in the subset; a helper may have the decorator dividing")
            self._refuse_while(function, {function.name})
        return bool(function.decorator_list)

    def _refuse_while(self, function: ast.FunctionDef, searched: set[str]) -> None:
        """Refuse loops without a number of rounds in a helper marked with ``dividing`` and in the helpers that it calls.

        On a GPU the first run of a body may have NaN for a quotient, with which such a loop may never end.
        """
        for node in ast.walk(function):
            if isinstance(node, ast.While):
                self.fail(node, f"{self.active[-1]}() is marked with dividing, and `while` may never end there on a GPU, which "
                                "tries fast quotients first; write `for k in range(n)`, or remove the mark")  # fmt: skip
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            called = self.file.functions.get(name)
            if called is not None and called.name not in searched:
                searched.add(called.name)
                self._refuse_while(called, searched)

    def _check_results(self, function: ast.FunctionDef, types: str, dividing: bool) -> None:
        if dividing and (set(types.split(",")) != {"f32"} or self.acting):
            self.fail(function, "a helper marked with dividing returns f32 and changes nothing")
        if function.returns is None:
            return
        returns = ast.parse(ast.unparse(function.returns))
        for part in ast.walk(returns):
            if isinstance(part, ast.Name):
                part.id = self.file.imported.get(part.id, part.id)
        text = ast.unparse(returns)
        expected = {"": "None"}.get(types, types if "," not in types else f"tuple[{types.replace(',', ', ')}]")
        if text != expected:
            self.fail(function, f"{function.name}() is annotated with {text} and returns {expected}")

    def _definition(self, function: ast.FunctionDef, parameters: list[tuple[str, str]], types: str, body: list[str]) -> str:
        """Return the text of a helper. Agents of roles have types of their own, so they are parameters of a template."""
        name = c_name(function.name)
        of_agents = [f"class {c_name(one)}_Agent" for one, kind in parameters if kind == "agent"]
        head = f"template <{', '.join(of_agents)}> " if of_agents else ""
        declared = []
        for one, kind in parameters:
            ctype = {"names": "GvWorld&", "agent": f"const {c_name(one)}_Agent&"}.get(kind) or C_TYPES[kind]
            declared.append(f"{ctype} {c_name(one)}" if kind != "names" else "GvWorld& w")
        result = tuple_type(types) if "," in types else C_TYPES.get(types, "void")
        structs = [tuple_struct(types)] if "," in types and len(set(types.split(","))) > 1 and result not in self.written else []
        self.written |= {result: ""} if structs else {}
        signature = f"{head}GV_METHOD static {result} {name}({', '.join(declared)}) {{"
        return "\n".join([*structs, self.line(function), signature, *body, "}"])


def _divisors(function: ast.FunctionDef, parameters: list[str], region: Region) -> set[str]:
    """Names that a helper divides by and that have one value: parameters without an assignment, and locals with a single one."""
    names = {
        node.right.id for node in ast.walk(function)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Name)
    }  # fmt: skip
    return {name for name in names if region.assigned.get(name, 0) == (name not in parameters)}


def _run_again(body: list[str], parameters: list[str], region: Region, divided: list[str]) -> list[str]:
    """Return the lines of a helper whose divisions share a test. A GPU may run them twice, so they change copies of parameters.

    Args:
        body: its lines.
        parameters: names of its parameters.
        region: numbers of assignments in it, and types.
        divided: parameters that it divides by.
    """
    before, first = [], [f"const auto {c_name(name)}_Divisor = by({c_name(name)});" for name in divided]
    for name in parameters:
        if region.assigned.get(name):
            argument = f"{c_name(name)}_Argument"
            before.append(f"    const auto {argument} = {c_name(name)};")
            first.append(f"{C_TYPES[region.types[name]]} {c_name(name)} = {argument};")
    head = [*before, "    return gv_dividing([&](auto by) {", *("        " + line for line in first)]
    return [*head, *body, "    });"]


def _hoisted(region: Region, depth: int) -> list[str]:
    return ["    " * depth + declaration for declaration in region.hoisted]


def translate(spec: EnvSpec, path: Path, text: str) -> str:
    """Return the text of a kernel for hooks in Python.

    Args:
        spec: the env.
        path: the file of the hooks, for ``#line`` and messages.
        text: what it holds. A hash of it is part of the result, so that every change of the file makes another kernel.

    Raises:
        HookError: something that is not in the subset; the message begins with the file, the line and the function.
    """
    translator = translator_of(spec, path, text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    head = [f"// Translated from {path.name}, SHA-256 {digest}.", '#include "world.h"', '#include "lib/as_python.h"']
    # The struct is a friend of agents, so that helpers may write observations.
    helpers = ["struct GvPythonHooks {", *filter(None, translator.written.values()), "};"]
    return "\n".join([*head, *helpers, *translator.out, ""])


def translator_of(spec: EnvSpec, path: Path, text: str) -> Translator:
    """Return the translator of a file after it has translated it; errors as in ``translate()``."""
    file = HooksFile(path, text)
    translator = Translator(spec, file)
    try:
        translator.translate()
    except RecursionError:
        file.fail(None, TOO_DEEP)
    return translator


