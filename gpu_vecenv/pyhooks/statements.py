"""Translation of statements that one lane runs, or all lanes alike: assignments, branches, loops."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpu_vecenv.pyhooks.calls import Calls, c_name
from gpu_vecenv.pyhooks.expressions import ADVICE, NOUNS
from gpu_vecenv.pyhooks.values import C_TYPES, Handle, Region, Scope, Value

REFUSED = {
    ast.Try: "hooks raise nothing; test the condition",
    ast.With: "hooks open nothing",
    ast.Raise: "a kernel cannot raise; print() it under device=\"python\", or end the episode",
    ast.Assert: "a kernel cannot raise; device=\"python\" checks bounds, overflow and races by itself",
    ast.Delete: "locals end with their block",
    ast.Global: "keep what lasts in the state",
    ast.Nonlocal: "keep what lasts in the state",
    ast.ClassDef: "a group of numbers is several fields of the state",
    ast.FunctionDef: "write the function at the margin of the file",
    ast.AsyncFunctionDef: "hooks run to their end",
    ast.AsyncFor: "hooks run to their end",
    ast.AsyncWith: "hooks run to their end",
    ast.Match: "write if and elif",
    ast.Import: "imports stand at the top of the file",
    ast.ImportFrom: "imports stand at the top of the file",
}
"""Advice by kind of statement that is not in the subset: the words to write instead."""

UNIFORM = "w.barrier"
"""The call that a hook makes itself, and no helper."""

IN_VARIABLES = ("agent", "draw")
"""Types of what has a variable of C++ and is no number. Another name of an array is replaced by the text of the array."""

COMPUTED_INDEX = re.compile(r"\[(?!\d+\])")
"""An index in a text of C++ that is no literal."""

Names = dict[str, Value] | None
"""Names that are assigned where a block ends; None if its end is never reached."""


@dataclass
class Results:
    """Results of the helper that is being translated.

    Attributes:
        types: types of what it returns, separated by commas; None before the first ``return``.
        name: name of the helper.
    """

    name: str
    types: str | None = None
    values: list[Value] = field(default_factory=list)


class Statements(Calls):
    """Statements. Methods append lines to a list and return the names that are assigned after them."""

    results: Results | None = None

    def block(self, body: list[ast.stmt], scope: Scope, lines: list[str]) -> Names:
        """Translate the statements of a block."""
        names: Names = scope.names
        for node in body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                continue  # a docstring
            if names is None:
                self.fail(node, "this line is never reached; leave it out")
            names = self.statement(node, scope, lines)
            if names is not None:
                scope.names = names
        return names

    def statement(self, node: ast.stmt, scope: Scope, lines: list[str]) -> Names:
        """Translate a statement."""
        pad = "    " * scope.depth
        if isinstance(node, ast.If):
            return self._if(node, scope, lines)
        if isinstance(node, ast.For):
            return self._for(node, scope, lines)
        if isinstance(node, ast.While):
            return self._while(node, scope, lines)
        if isinstance(node, ast.Return):
            return self._return(node, scope, lines)
        if isinstance(node, ast.Break | ast.Continue):
            lines += [self.line(node), pad + self._jump(node, scope)]
            return None
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            translated = self._assign(node, scope)
        elif isinstance(node, ast.Expr):
            translated = self._expression(node.value, scope)
        elif isinstance(node, ast.Pass):
            return scope.names
        else:
            self.fail(node, f"{self.quoted(node)}: {REFUSED.get(type(node), 'this statement is not in the subset')}")
        if translated:
            lines += [self.line(node), *(pad + line for line in translated)]
        return scope.names

    def line(self, node: ast.AST) -> str:
        """Return the directive that names the line of the file."""
        return f'#line {node.lineno} "{self.file.path}"'  # type: ignore[attr-defined]

    # ---- branches and loops -----------------------------------------------------------------------------------

    def _if(self, node: ast.If, scope: Scope, lines: list[str]) -> Names:
        pad = "    " * scope.depth
        self.writing = True
        test = self.condition(node.test, scope)
        lines += [self.line(node), f"{pad}if ({test.text}) {{"]
        static = scope.static and test.static
        after = self.block(node.body, scope.block(static=static), lines)
        lines.append(f"{pad}}}")
        otherwise: Names = scope.names
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            lines.append(f"{pad}else")
            otherwise = self.statement(node.orelse[0], scope.block(static=static, depth=scope.depth), lines)
        elif node.orelse:
            lines.append(f"{pad}else {{")
            otherwise = self.block(node.orelse, scope.block(static=static), lines)
            lines.append(f"{pad}}}")
        return self.joined(scope, after, otherwise)

    def joined(self, scope: Scope, one: Names, two: Names) -> Names:
        """Return the names that are assigned after two branches. What a name of a block alone stands for ends with it."""
        ends = [names for names in (one, two) if names is not None]
        if not ends:
            return None
        return {
            name: value for name, value in ends[0].items()
            if all(name in names for names in ends) and (name in scope.names or value.type in C_TYPES)
        }  # fmt: skip

    def _while(self, node: ast.While, scope: Scope, lines: list[str]) -> Names:
        if node.orelse:
            self.fail(node, "a loop has no else; set a local before `break`")
        pad = "    " * scope.depth
        inner = scope.block(loops=(*scope.loops, "loop"))
        self.writing = True
        test = self.condition(node.test, inner)
        lines += [self.line(node), f"{pad}while ({test.text}) {{"]
        self.block(node.body, inner, lines)
        lines.append(f"{pad}}}")
        if test.text != "true" or _breaks(node.body):
            return scope.names
        if not any(isinstance(inside, ast.Return) for inside in ast.walk(node)):
            self.fail(node, "this loop never ends; write a condition, `break`, or `return` in a helper")
        return None

    def _for(self, node: ast.For, scope: Scope, lines: list[str]) -> Names:
        """Translate a loop of one lane: over a range of numbers, or over all agents of a range."""
        self.check_loop(node)
        callee = ast.unparse(node.iter.func) if isinstance(node.iter, ast.Call) else ""
        if callee in ("w.each", "w.pairs"):
            self.fail(node, f"{self.quoted(node.iter)} is a phase, and phases are not nested; here, write "
                            f"{'range(n)' if callee == 'w.each' else 'two loops'}")  # fmt: skip
        if not isinstance(node.target, ast.Name):
            self.fail(node, "this loop has one variable")
        name = node.target.id
        self.loop_name(node, name, scope)
        inner = scope.block(loops=(*scope.loops, "loop"))
        if callee == "range":
            head = self._range_head(node, name, scope, inner)
        else:
            if scope.kind == "uniform" and not scope.helper:
                self.fail(node, "a phase inside a loop; put the loop into the phase, or repeat the phase")
            text, group, _ = self.elements(node.iter, scope)
            k = f"{c_name(name)}_K"
            pad = "    " * inner.depth
            head = [f"for (gv_i32 {k} = 0; {k} < {text}.count(); ++{k}) {{", f"{pad}const auto {c_name(name)} = {text}[{k}];"]
            inner.names[name] = Value(c_name(name), "agent", handle=Handle("all", group))
        lines += [self.line(node), "    " * scope.depth + head[0], *head[1:]]
        scope.region.loops.add(name)
        self.block(node.body, inner, lines)
        lines.append("    " * scope.depth + "}")
        why = f"is the variable of the loop at line {node.lineno} and ends with it; assign it to a local there"
        self.ended.setdefault(name, why)
        return scope.names

    def check_loop(self, node: ast.For) -> None:
        """Refuse an else, and a loop over several things at once."""
        if node.orelse:
            self.fail(node, "a loop has no else; set a local before `break`")
        if isinstance(node.iter, ast.Call):
            self.refuse_builtin(node, ast.unparse(node.iter.func))

    def loop_name(self, node: ast.AST, name: str, scope: Scope) -> None:
        """Refuse a loop's variable that is also a local: Python would change it, and C++ has another one."""
        self.refuse_name(node, name)
        if name in scope.names or scope.region.assigned.get(name):
            self.fail(node, f"{name!r} is a variable of a loop and a local; choose two names")

    def _range_head(self, node: ast.For, name: str, scope: Scope, inner: Scope) -> list[str]:
        assert isinstance(node.iter, ast.Call)
        values = [self.of("i32", part, scope) for part in self.arguments(node.iter, 1, 3)]
        first = values[0] if len(values) > 1 else self.number(self.file.literal(node, 0))
        end = values[0] if len(values) == 1 else values[1]
        step = 1
        if len(values) == 3:
            if not values[2].literal:
                self.fail(node, f"{self.quoted(node.iter)}: the step of a range is a literal or a constant, and not 0")
            step = int(values[2].literal)
        k, until = c_name(name), f"{c_name(name)}_End"
        inner.names[name] = Value(k, "i32", natural=first.natural if step > 0 else end.natural)
        move = {1: f"++{k}", -1: f"--{k}"}.get(step, f"{k} += {step}")
        return [f"for (gv_i32 {k} = {first.text}, {until} = {end.text}; {k} {'<' if step > 0 else '>'} {until}; {move}) {{"]

    def _jump(self, node: ast.stmt, scope: Scope) -> str:
        word = "break" if isinstance(node, ast.Break) else "continue"
        if scope.loops and scope.loops[-1] == "loop":
            return f"{word};"
        if not scope.loops:
            self.fail(node, f"{word} outside a loop")
        if word == "break":
            self.fail(node, "a phase has no break: other lanes would go on; put the condition into the phase, or use w.any()")
        return "continue;"

    def _return(self, node: ast.Return, scope: Scope, lines: list[str]) -> Names:
        if self.results is None:
            self.fail(node, "a hook has no return, because all lanes reach its end; write `if`")
        pad = "    " * scope.depth
        if node.value is None or isinstance(node.value, ast.Constant) and node.value.value is None:
            self._result(node, "")
            lines += [self.line(node), f"{pad}return;"]
            return None
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        if isinstance(node.value, ast.Tuple) and len(parts) < 2:
            self.fail(node, f"{self.quoted(node)}: a tuple has several values; write {'`return x`' if parts else '`return`'}")
        self.writing = len(parts) == 1
        values = [self.value(part, scope) for part in parts]
        for part, value in zip(parts, values, strict=True):
            if value.type not in C_TYPES and (value.type != "tuple" or len(parts) > 1):
                self.fail(part, f"a helper returns numbers, not {NOUNS.get(value.type, value.type)}; return its index")
        types = values[0].member if values[0].type == "tuple" else ",".join(value.type for value in values)
        self._result(node, types)
        self.results.values += values
        text = values[0].text
        if len(values) > 1:
            text = f"{tuple_type(types)}{{{', '.join(value.text for value in values)}}}"
        lines += [self.line(node), f"{pad}return {text};"]
        return None

    def _result(self, node: ast.AST, types: str) -> None:
        assert self.results is not None
        if self.results.types is None:
            self.results.types = types
        elif self.results.types != types:
            one, two = (text or "nothing" for text in (self.results.types, types))
            self.fail(node, f"{self.results.name}() returns {one} and {two}; all its returns must have the same types")

    # ---- assignments ------------------------------------------------------------------------------------------

    def _assign(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign, scope: Scope) -> list[str]:
        if isinstance(node, ast.AnnAssign):
            return self._annotated(node, scope)
        if isinstance(node, ast.AugAssign):
            load = ast.copy_location(_loaded(node.target), node)
            value: ast.expr = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
            return self._assign_to(node.target, value, scope, twice=True)
        if len(node.targets) > 1:
            self.fail(node, "an assignment has one target; write two lines")
        target = node.targets[0]
        if isinstance(target, ast.Tuple | ast.List):
            return self._unpack(node, target, scope)
        return self._assign_to(target, node.value, scope)

    def _annotated(self, node: ast.AnnAssign, scope: Scope) -> list[str]:
        kind = self.file.imported.get(ast.unparse(node.annotation), ast.unparse(node.annotation))
        if kind not in C_TYPES or not isinstance(node.target, ast.Name):
            self.fail(node, f"{self.quoted(node)}: a local is annotated as f32, i32 or bool")
        if node.value is None:
            self.fail(node, f"{self.quoted(node)} assigns nothing; give the local a value")
        self.writing = True
        value = self.of(kind, node.value, scope)
        return self._set(node, node.target, value, scope)

    def _assign_to(self, target: ast.expr, node: ast.expr, scope: Scope, twice: bool = False) -> list[str]:
        """Translate an assignment to one target. ``twice`` means that the target is read, too."""
        if isinstance(target, ast.Attribute) and target.attr == "obs" and isinstance(node, ast.List):
            return self._whole_row(target, node, scope)
        self.writing = not twice
        value = self.value(node, scope)
        if isinstance(target, ast.Name):
            return self._set(target, target, value, scope)
        place = self.place(target, scope)
        if place.once and twice:
            self.fail(target, f"{self.quoted(target)} would evaluate its index twice; assign it to a local first")
        if not (value.type == "bool" and place.dtype.startswith("uint")):
            self.require(place.type, node, value)
        return [f"{place.text} = {value.text};"]

    def _whole_row(self, target: ast.Attribute, node: ast.List, scope: Scope) -> list[str]:
        row = self.value(target, scope)
        if row.type != "row" or row.handle is None or row.dtype != "float32":
            self.fail(target, f"cannot assign to {self.quoted(target)}")
        self._row_element(target, row, self.number(self.file.literal(node, 0)), scope)
        if scope.kind == "pairs":
            self.fail(target, "w.pairs() writes features one by one: me.obs[k] = x")
        values = [self.text("f32", part, scope) for part in node.elts]
        if not values:
            self.fail(node, "a row has at least one feature")
        return [f"{row.text} = {{{', '.join(values)}}};"]

    def _unpack(self, node: ast.Assign, target: ast.Tuple | ast.List, scope: Scope) -> list[str]:
        for part in target.elts:
            if isinstance(part, ast.Starred | ast.Tuple | ast.List):
                self.fail(node, f"{self.quoted(node)}: name each value")
        if isinstance(node.value, ast.Tuple):
            return self._parallel(node, target.elts, node.value.elts, scope)
        count = len(target.elts)
        value, text = self._several(node, count, scope)
        types = value.member.split(",")
        if len(types) != count:
            self.fail(node, f"{self.quoted(node)}: {len(types)} values for {count} names")
        temporary = f"Values{node.lineno}_{node.col_offset}"
        lines = [f"const auto {temporary} = {text};"]
        for k, (part, kind) in enumerate(zip(target.elts, types, strict=True)):
            item = f"value[{k}]" if len(set(types)) == 1 else f"value_{k}"
            lines += self._store(part, Value(f"{temporary}.{item}", kind), scope)
        return lines

    def _several(self, node: ast.Assign, count: int, scope: Scope) -> tuple[Value, str]:
        """Translate what is unpacked: the choices of an action, sine and cosine, or results of a helper."""
        right = node.value
        if isinstance(right, ast.Call) and isinstance(right.func, ast.Attribute) and right.func.attr == "indices":
            action = self.value(right.func.value, scope)
            if action.type == "action":
                self.arguments(right, 0)
                self.acting = True
                return Value("", "tuple", member=",".join(["i32"] * count)), f"{action.text}.template indices<{count}>()"
        self.writing = True
        value = self.value(right, scope)
        if value.type != "tuple":
            self.fail(node, f"{self.quoted(right)} is {NOUNS.get(value.type, value.type)}, which is not several values")
        return value, value.text

    def _parallel(self, node: ast.Assign, targets: list[ast.expr], parts: list[ast.expr], scope: Scope) -> list[str]:
        """Translate ``x, y = a, b``. All values are computed before the first target changes."""
        if len(targets) != len(parts):
            self.fail(node, f"{self.quoted(node)}: {len(parts)} values for {len(targets)} names")
        values = [self.value(part, scope) for part in parts]
        fresh = all(isinstance(target, ast.Name) and target.id not in scope.names for target in targets)
        lines = []
        for k, value in enumerate(values):
            if not fresh and value.type in (*C_TYPES, *IN_VARIABLES):
                temporary = f"Value{k}_{node.lineno}_{node.col_offset}"
                lines.append(f"const {C_TYPES.get(value.type, 'auto')} {temporary} = {value.text};")
                values[k] = replace(value, text=temporary)
        for target, value in zip(targets, values, strict=True):
            lines += self._store(target, value, scope)
        return lines

    def _store(self, target: ast.expr, value: Value, scope: Scope) -> list[str]:
        if isinstance(target, ast.Name):
            return self._set(target, target, value, scope)
        place = self.place(target, scope)
        if not (value.type == "bool" and place.dtype.startswith("uint")):
            self.require(place.type, target, value)
        return [f"{place.text} = {value.text};"]

    def _set(self, node: ast.AST, target: ast.Name, value: Value, scope: Scope) -> list[str]:
        """Assign to a local, or name an agent, an array or a group of names."""
        name, region = target.id, scope.region
        self.refuse_name(target, name)
        if name in region.loops:
            self.fail(target, f"{name!r} is a variable of a loop; it changes by itself, so choose another name")
        if value.type not in C_TYPES:
            return self._bind(target, value, scope)
        known = scope.names.get(name)
        if known is not None and (known.type not in C_TYPES or name not in region.types):
            self.fail(target, f"{name!r} is {NOUNS.get(known.type, known.type)} here; choose another name"
                      if known.type not in C_TYPES else f"{name!r} is a local of all lanes, assigned outside the phase; "
                                                        "a lane cannot "
                      "change it in a phase. Use w.sum, w.count or w.any")  # fmt: skip
        kind = region.types.setdefault(name, value.type)
        if kind != value.type:
            self.fail(target, f"{name!r} is {kind} and would become {value.type}; choose another name")
        once = region.assigned.get(name, 0) == 1
        text = c_name(name)
        declared = once and scope.top and known is None
        if not declared and known is None:
            declaration = f"{C_TYPES[kind]} {text};"
            if declaration not in region.hoisted:
                region.hoisted.append(declaration)
        scope.names[name] = Value(
            text, kind, static=once and value.static, counts=once and value.counts, natural=once and value.natural
        )
        lines = [f"{f'const {C_TYPES[kind]} ' if declared else ''}{text} = {value.text};"]
        if self.divisors is not None and name in self.divisors:
            if declared:
                lines.append(f"const auto {text}_Divisor = by({text});")
            else:
                self.divisors.discard(name)
        return lines

    def _bind(self, target: ast.Name, value: Value, scope: Scope) -> list[str]:
        """Name what is no number: an agent or a draw in a variable of its own, a group of names by another name."""
        name = target.id
        if value.type in ("tuple", "none", "record"):
            self.fail(target, f"{name!r} cannot hold {NOUNS[value.type]}" + ("; name each "
                              "value" if value.type == "tuple" else ""))  # fmt: skip
        if name in scope.names or name in scope.region.types:
            self.fail(target, f"{name!r} would be {NOUNS[value.type]} and something else; choose another name")
        if value.type in IN_VARIABLES:
            text = c_name(name)
            scope.names[name] = replace(value, text=text, once=False)
            return [f"const auto {text} = {value.text};"]
        if COMPUTED_INDEX.search(value.text):
            self.fail(target, f"{name!r} would be {NOUNS[value.type]} of an agent whose number may change; name the agent first: "
                              f"it = w.agents[k], then {name} = it.{value.text.rpartition('.')[2]}")  # fmt: skip
        scope.names[name] = replace(value, once=False)
        return []

    # ---- calls as statements ----------------------------------------------------------------------------------

    def _expression(self, node: ast.expr, scope: Scope) -> list[str]:
        if not isinstance(node, ast.Call):
            if type(node) in ADVICE:
                self.value(node, scope)
            self.fail(node, f"{self.quoted(node)} has no effect")
        if isinstance(node.func, ast.Attribute):
            self.refuse_foreign(node.func, scope, called=True)
        name = ast.unparse(node.func)
        if name in ("print", "breakpoint"):
            self._python_only(node, name, scope)
            return []
        if name in ("w.terminate", "w.truncate", "w.truncate_at"):
            return [self._end(node, name, scope)]
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Attribute | ast.Name) and name != UNIFORM:
            base = self.value(node.func.value, scope)
            if base.member == "record":
                return [self._record(node, node.func.attr, base, scope)]
        if name in self.file.functions:
            self.writing = True
            value = self.value(node, scope)
            if not value.once and value.type != "none":
                self.fail(node, f"{self.quoted(node)} has no effect; {name}() changes nothing, so use its result")
            return [f"{value.text};"]
        if name == UNIFORM:
            self.fail(node, "w.barrier() stands in the hook itself, outside phases, branches and `if w.once`")
        self.value(node, scope)
        self.fail(node, f"{self.quoted(node)} has no effect")

    def _end(self, node: ast.Call, name: str, scope: Scope) -> str:
        if self.hook != "env_step":
            self.fail(node, f"{name}() stands in env_step, which alone ends episodes")
        if scope.kind != "once" and not scope.single:
            self.fail(node, f"{name}() stands under `if w.once:`, because it is work of the world")
        self.acting = True
        argument = self.of("i32" if name == "w.truncate_at" else "bool", self.arguments(node, 1)[0], scope)
        return f"{name}({argument.text});"

    def _record(self, node: ast.Call, metric: str, base: Value, scope: Scope) -> str:
        if metric not in self.words.metrics:
            self.fail(node, f"the spec has no metric {metric!r}; it has {', '.join(self.words.metrics) or 'none'}")
        if self.hook != "env_step":
            self.fail(node, f"w.record.{metric}() stands in env_step")
        if scope.kind != "once" and not scope.single:
            self.fail(node, f"w.record.{metric}() stands under `if w.once:`, because it is work of the world")
        self.acting = True
        return f"{base.text}.{metric}({self.text('f32', self.arguments(node, 1)[0], scope)});"

    def _python_only(self, node: ast.Call, name: str, scope: Scope) -> None:
        """Check the arguments of print(), which compiled kernels leave out."""
        if name == "breakpoint":
            self.arguments(node, 0)
            return
        accesses, waits = list(self.accesses), self.waits
        waiting: list[ast.expr] = [*node.args, *(keyword.value for keyword in node.keywords)]
        while waiting:
            part = waiting.pop()
            if isinstance(part, ast.JoinedStr):
                waiting += part.values
            elif isinstance(part, ast.FormattedValue):
                waiting += [part.value, *([part.format_spec] if part.format_spec else [])]
            elif not (isinstance(part, ast.Constant) and (part.value is None or isinstance(part.value, str | int | float))):
                value = self.value(part, scope)
                if value.once or value.type not in C_TYPES:
                    self.fail(part, f"print() shows numbers that are read without an effect; assign {self.quoted(part)} "
                                    "to a local first"
                              if value.once else f"print() shows numbers, and {self.quoted(part)} is "
                                                 f"{NOUNS[value.type]}")  # fmt: skip
        self.accesses, self.waits = accesses, waits


def tuple_type(types: str) -> str:
    """Return the type of C++ that holds several results."""
    kinds = types.split(",")
    if len(set(kinds)) == 1:
        return f"GvVec<{C_TYPES[kinds[0]]}, {len(kinds)}>"
    return "Results_" + "_".join(kinds)


def tuple_struct(types: str) -> str:
    """Return the declaration of a type for results of several types."""
    members = " ".join(f"{C_TYPES[kind]} value_{k};" for k, kind in enumerate(types.split(",")))
    return f"struct {tuple_type(types)} {{ {members} }};"


def _loaded(node: ast.expr) -> ast.expr:
    """Return a target as an expression that reads it."""
    if isinstance(node, ast.Name):
        return ast.copy_location(ast.Name(node.id, ast.Load()), node)
    if isinstance(node, ast.Attribute):
        return ast.copy_location(ast.Attribute(node.value, node.attr, ast.Load()), node)
    if isinstance(node, ast.Subscript):
        return ast.copy_location(ast.Subscript(node.value, node.slice, ast.Load()), node)
    return node


def _breaks(body: Iterable[ast.AST]) -> bool:
    """Return True if a ``break`` in the body of a loop leaves this loop, not one inside it."""
    return any(
        isinstance(node, ast.Break) or not isinstance(node, ast.For | ast.While) and _breaks(ast.iter_child_nodes(node))
        for node in body
    )


def new_region(body: list[ast.stmt]) -> Region:
    """Return a region with the numbers of assignments to each name in it."""
    region = Region()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                targets = [part for target in node.targets for part in getattr(target, "elts", [target])]
            elif isinstance(node, ast.AugAssign | ast.AnnAssign):
                targets = [node.target]
            else:
                continue
            for target in targets:
                if isinstance(target, ast.Name):
                    region.assigned[target.id] = region.assigned.get(target.id, 0) + 1
    return region
