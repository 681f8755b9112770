"""Translation of calls: conversions, functions of numbers, draws, actions, and what all lanes compute together."""

from __future__ import annotations

import ast
from typing import Any

from gpu_vecenv.pyhooks.advice import INSTEAD, of_module
from gpu_vecenv.pyhooks.expressions import METHODS, NOUNS, Expressions
from gpu_vecenv.pyhooks.names import FUNCTIONS
from gpu_vecenv.pyhooks.source import BUILTINS
from gpu_vecenv.pyhooks.values import C_TYPES, Access, Handle, Region, Scope, Value, Where
from gpu_vecenv.spec.names import is_c_name

PURPOSES = 0xFAFE
"""Purposes of draws from this one on are the package's."""

DOUBLES = ("float", "int", "bool", "np", "numpy", "math", "torch")
"""Names of Python and of modules that compute in other types."""


class Calls(Expressions):
    """Calls in expressions."""

    def callee(self, node: ast.Call) -> str:
        """Return the name of the function that a call calls; one that an import renames has the name of this package."""
        if isinstance(node.func, ast.Name):
            return self.file.imported.get(node.func.id, node.func.id)
        return ast.unparse(node.func)

    def arguments(self, node: ast.Call, least: int, most: int | None = None) -> list[ast.expr]:
        """Return the arguments of a call that takes so many."""
        most = least if most is None else most
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            self.fail(node, f"{self.quoted(node)}: arguments are given by place, without names and stars")
        if not least <= len(node.args) <= most:
            number = str(least) if least == most else f"{least} to {most}"
            self.fail(node, f"{self.quoted(node)}: {ast.unparse(node.func)}() takes {number} argument{'s' * (most != 1)}, "
                            f"got {len(node.args)}")  # fmt: skip
        return node.args

    def _call(self, node: ast.Call, scope: Scope) -> Value:
        writing, self.writing = self.writing, False
        if isinstance(node.func, ast.Name):
            return self._plain_call(node, node.func.id, scope, writing)
        if not isinstance(node.func, ast.Attribute):
            self.fail(node, f"{self.quoted(node)}: functions are called by name")
        self.refuse_foreign(node.func, scope, called=True)
        base, method = self.value(node.func.value, scope), node.func.attr
        if base.type == "names" and base.member == "w":
            return self._of_world(node, method, scope)
        if base.type == "names" and base.member == "record":
            self.fail(node, f"{self.quoted(node)} records a metric; it stands in a line of its own")
        if base.type in METHODS:
            return self._method(node, base, method, scope)
        what = NOUNS.get(base.type, base.type)
        self.fail(node, f"{self.quoted(node)}: {what} has no function {method!r}")

    def _plain_call(self, node: ast.Call, word: str, scope: Scope, writing: bool) -> Value:
        name = self.callee(node)
        if word in scope.names:
            self.fail(node, f"{word!r} is a local, no function")
        if word in self.file.functions:
            return self.helper(node, self.file.functions[word], scope, writing)
        if word in self.file.imported:
            return self._of_package(node, name, scope)
        if word in BUILTINS:
            if word in ("abs", "min", "max"):
                return self._builtin(node, word, scope)
            self.fail(node, "range() is for loops: for k in range(n)" if word == "range" else
                      f"{word}() returns nothing; it stands in a line of its own")  # fmt: skip
        if word == "w":
            self.fail(node, "w is the world, and no function; w.each(n), w.draw(purpose) and others are")
        if word in DOUBLES:
            self.fail(node, f"{word}() computes in other types; use f32, i32 and comparisons")
        self.refuse_builtin(node, word)
        self.fail(node, self.unknown(word))

    def refuse_builtin(self, node: ast.AST, word: str) -> None:
        """Refuse a function of Python for which hooks have something else."""
        if word in INSTEAD:
            self.fail(node, f"{word}() is not in the subset; {INSTEAD[word]}")

    def refuse_foreign(self, node: ast.Attribute, scope: Scope, called: bool = False) -> None:
        """Refuse a name of another module, such as ``math.pi`` or ``random.random``, and say what to write instead."""
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id in scope.names:
            return
        name, module = ast.unparse(node), self.file.foreign.get(root.id)
        if module is None and root.id not in DOUBLES:
            return
        if instead := of_module(name, module or ""):
            self.fail(node, f"{name}{'()' * called} is not in the subset; {instead}")
        if called and root.id in DOUBLES:
            self.fail(node, f"{name}() computes in other types; use f32, i32 and the functions of gpu_vecenv.pyhooks")

    def helper(self, node: ast.Call, function: ast.FunctionDef, scope: Scope, writing: bool) -> Value:
        """Translate a call of a function of the file."""
        raise NotImplementedError

    # ---- numbers ----------------------------------------------------------------------------------------------

    def _of_package(self, node: ast.Call, name: str, scope: Scope) -> Value:
        if name in ("f32", "i32"):
            return self._conversion(node, name, scope)
        if name in FUNCTIONS:
            values = [self.of("f32", part, scope) for part in self.arguments(node, FUNCTIONS[name])]
            text = f"gv_{name}({', '.join(value.text for value in values)})"
            return Value(text, "f32", static=all(v.static for v in values), once=any(v.once for v in values))
        if name in ("sin", "cos"):
            value = self.of("f32", self.arguments(node, 1)[0], scope)
            return Value(f"gv_{name}_of({value.text})", "f32", static=value.static, once=value.once)
        if name in ("sincos", "sincos_small"):
            value = self.of("f32", self.arguments(node, 1)[0], scope)
            return Value(f"gv_{name}_of({value.text})", "tuple", static=value.static, once=value.once, member="f32,f32")
        self.fail(node, f"{self.quoted(node)}: {name} is not called in hooks")

    def _conversion(self, node: ast.Call, name: str, scope: Scope) -> Value:
        (part,) = self.arguments(node, 1)
        value = self.value(part, scope)
        if value.type not in C_TYPES:
            self.fail(node, f"{self.quoted(node)} converts {NOUNS.get(value.type, value.type)}; it takes f32, i32 or bool")
        natural = name == "i32" and (value.natural or value.type == "bool")
        text = f"gv_float_of({value.text})" if (name, value.type) == ("f32", "i32") else f"({C_TYPES[name]}){value.text}"
        return Value(text, name, static=value.static, once=value.once, natural=natural,
                     counts=value.counts and name == "i32")  # fmt: skip

    def _builtin(self, node: ast.Call, name: str, scope: Scope) -> Value:
        parts = self.arguments(node, 1) if name == "abs" else self.arguments(node, 2, 99)
        values = [self.value(part, scope) for part in parts]
        kind = values[0].type
        for part, value in zip(parts, values, strict=True):
            if value.type not in ("i32", "f32"):
                self.fail(node, f"{self.quoted(part)} in {self.quoted(node)} is {NOUNS.get(value.type, value.type)}, no number")
            if value.type != kind:
                self.fail(node, f"{self.quoted(node)} mixes {kind} and {value.type}; convert with f32(...) or i32(...)")
        facts: dict[str, Any] = {"static": all(v.static for v in values), "once": any(v.once for v in values)}
        function = {"f32": {"abs": "gv_abs", "min": "gv_min", "max": "gv_max"},
                    "i32": {"abs": "gv_magnitude", "min": "gv_smaller", "max": "gv_larger"}}[kind][name]  # fmt: skip
        if name == "abs":
            return Value(f"{function}({values[0].text})", kind, natural=kind == "i32", **facts)
        text = values[0].text
        for value in values[1:]:
            text = f"{function}({text}, {value.text})"
        natural = kind == "i32" and (all if name == "min" else any)(value.natural for value in values)
        return Value(text, kind, natural=natural, **facts)

    # ---- methods ----------------------------------------------------------------------------------------------

    def _method(self, node: ast.Call, base: Value, method: str, scope: Scope) -> Value:
        if method not in METHODS[base.type]:
            known = ", ".join(METHODS[base.type])
            self.fail(node, f"{self.quoted(node)}: {NOUNS[base.type]} has no {method!r}; it has {known}")
        if base.type == "range":
            return self._of_range(node, base, method)
        if base.type == "draw":
            return self._of_draw(node, base, method, scope)
        self.acting = True
        if method == "indices":
            self.arguments(node, 0)
            self.fail(node, f"{self.quoted(node)} is several numbers: move, zap = me.action.indices()")
        entries = [self.of("i32", part, scope) for part in self.arguments(node, 0, 1)]
        text = f"{base.text}.{method}({', '.join(entry.text for entry in entries)})"
        return Value(text, "i32" if method == "index" else "f32", once=True, natural=method == "index")

    def _of_range(self, node: ast.Call, base: Value, method: str) -> Value:
        assert base.handle is not None
        self.arguments(node, 0)
        if method == "count":
            return Value(f"{base.text}.count()", "i32", static=True, natural=True)
        if not self.words.shares(base.handle.group):
            self.fail(node, f"{self.quoted(node)}: observations have no part that all these agents share; "
                            "Role(shared=...) declares it")  # fmt: skip
        if not self.hook.startswith("env_observe"):
            self.fail(node, "shared() exists in env_observe only")
        return Value(f"{base.text}.shared()", "row", member=f"row shared {base.handle.group}", dtype="float32")

    def _of_draw(self, node: ast.Call, base: Value, method: str, scope: Scope) -> Value:
        parts = self.arguments(node, 0, 1) if method == "uniform" else self.arguments(node, 1, 2)
        word = parts[-1] if len(parts) == (1 if method == "uniform" else 2) else None
        words = [] if word is None else [self.of("i32", word, scope)]
        if words and (words[0].literal is None or not 0 <= words[0].literal < 4):
            self.fail(node, f"{self.quoted(node)}: a draw has the words 0 to 3, and the number of one is a literal or a constant")
        if method == "uniform":
            return Value(f"{base.text}.uniform({words[0].text if words else 0})", "f32")
        below = self.of("i32", parts[0], scope)
        word_text = f", {words[0].text}" if words else ""
        return Value(f"{base.text}.below({below.text}{word_text})", "i32", natural=True, once=below.once)

    # ---- the world --------------------------------------------------------------------------------------------

    def _of_world(self, node: ast.Call, method: str, scope: Scope) -> Value:
        if method == "draw":
            return self._draw(node, scope)
        if method in ("count", "any", "sum"):
            return self._reduction(node, method, scope)
        if method in ("terminate", "truncate", "truncate_at", "barrier"):
            self.fail(node, f"w.{method}() returns nothing; it stands in a line of its own")
        if method in ("each", "pairs"):
            self.fail(node, f"w.{method}() is for phases: for {'k' if method == 'each' else 'me, it'} in "
                            f"{self.quoted(node)[1:-1]}")  # fmt: skip
        known = ", ".join(METHODS["w"])
        self.fail(node, f"w has no function {method!r}; it has {known}")

    def _draw(self, node: ast.Call, scope: Scope) -> Value:
        parts = self.arguments(node, 1, 2)
        purpose = self.of("i32", parts[0], scope)
        if purpose.literal is None or not 0 <= purpose.literal < PURPOSES:
            self.fail(node, f"{self.quoted(node)}: the purpose of a draw is a literal or a constant from 0 to {PURPOSES - 1}; "
                            "the second argument may be computed")  # fmt: skip
        agents = [self.of("i32", part, scope) for part in parts[1:]]
        texts = ", ".join([purpose.text, *(agent.text for agent in agents)])
        return Value(f"w.draw({texts})", "draw", once=any(agent.once for agent in agents))

    def elements(self, node: ast.expr, scope: Scope) -> tuple[str, str, Value | None]:
        """Return the text, the group and the count of what a phase or a reduction goes over; the count only of ``w.each(n)``."""
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "w.each":
            count = self.of("i32", self.arguments(node, 1)[0], scope)
            return f"w.each({count.text})", "each", count
        value = self.value(node, scope) if isinstance(node, ast.Attribute | ast.Name) else None
        if value is None or value.type != "range":
            self.fail(node, f"{self.quoted(node)} is no range; there are w.agents, w.role.NAME and w.each(n)")
        assert value.handle is not None
        return value.text, value.handle.group, None

    def _reduction(self, node: ast.Call, name: str, scope: Scope) -> Value:
        over, *functions = self.arguments(node, 2, 33 if name == "sum" else 2)
        if scope.kind != "uniform" or scope.helper or scope.loops:
            self.fail(node, f"w.{name}() waits for all lanes; call it in the hook itself, outside phases, loops and `if w.once`")
        if scope.branch or not scope.static:
            self.fail(node, f"w.{name}() waits for all lanes, and some worlds would skip it; assign it to a local before")
        text, group, count = self.elements(over, scope)
        before, self.accesses = self.accesses, []
        lambdas = [self._lambda(node, function, name, group, count is None, scope) for function in functions]
        self._reduced(name, before)
        call = f"w.{'sum' if name == 'sum' else 'count'}({text}, {', '.join(lambdas)})"
        if len(lambdas) > 1:
            return Value(call, "tuple", once=True, member=",".join(["f32"] * len(lambdas)))
        if name == "sum":
            return Value(call, "f32", once=True)
        return Value(f"({call} > 0)", "bool", once=True) if name == "any" else Value(call, "i32", natural=True, once=True)

    def _lambda(self, node: ast.Call, function: ast.expr, name: str, group: str, of_agents: bool, scope: Scope) -> str:
        """Translate a lambda of a reduction."""
        args = function.args if isinstance(function, ast.Lambda) else ast.arguments([], [], None, [], [], None, [])
        simple = not (args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg or args.defaults)
        if not isinstance(function, ast.Lambda) or len(args.args) != 1 or not simple:
            over = ast.unparse(node.args[0])
            self.fail(node, f"w.{name}() takes a lambda of one argument: w.{name}({over}, lambda it: ...)")
        parameter = args.args[0].arg
        self.refuse_name(function, parameter)
        lane: Where = "all" if name == "sum" else "own"  # a lane sums elements of others
        inner = Scope("phase", Region(), dict(scope.names), helper=True, single=self.words.single and of_agents)
        if of_agents:
            inner.names[parameter] = Value(c_name(parameter), "agent", handle=Handle(lane, group))
        else:
            inner.names[parameter] = Value(c_name(parameter), "i32", counts=lane == "own", natural=True)
        body = self.of("f32" if name == "sum" else "bool", function.body, inner)
        return f"[&](auto {c_name(parameter)}) {{ return {body.text}; }}"

    def _reduced(self, name: str, before: list[Access]) -> None:
        """Join the accesses of a reduction to those before. w.sum() waits for all lanes before it reads and after."""
        if name == "sum":
            self.accesses, self.waits = before, True
        else:
            self.accesses = before + self.accesses

    def _alone(self, group: str) -> bool:
        """Return True for a range that is always the only agent of a world."""
        return self.words.single and group != "each"

    def refuse_name(self, node: ast.AST, name: str) -> None:
        """Refuse a local with the name of something else."""
        file = self.file
        file.refuse_dunder(node, name)
        if name == "w" or name in {*file.functions, *file.constants, *file.imported, *BUILTINS}:
            self.fail(node, f"{name!r} already means something else in this file; choose another name")
        if name in self.file.foreign:
            self.fail(node, f"{name!r} is the name of an import; choose another name")


def c_name(name: str) -> str:
    """Return an identifier of C++ for a name of Python; two names have two.

    A name of ASCII is the same, or has an underscore behind it if it might be a keyword, a macro or a name of the translator,
    which has capitals and ends neither with an underscore nor with ``_U``. Other names end with ``_U``, and in them each ``U``
    and each letter beyond ASCII is ``U``, its code in hex, and an underscore.
    """
    if not name.isascii():
        return "".join(letter if letter.isascii() and letter != "U" else f"U{ord(letter):x}_" for letter in name) + "_U"
    plain = name == name.lower() and name[0] != "_" and name[-1] != "_" and not name.startswith("gv_")
    return name if plain and is_c_name(name) and name not in MACROS else f"{name}_"


MACROS = ("alloca", "assert", "by", "errno", "linux", "major", "makedev", "minor", "stderr", "stdin", "stdout", "unix")
"""Names that headers of compilers may define as macros, and the name that divisors have."""
