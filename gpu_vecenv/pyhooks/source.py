"""A file of hooks as Python's parser reads it: functions, constants and the names that it imports."""

from __future__ import annotations

import ast
import builtins
import warnings
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gpu_vecenv.errors import HookError
from gpu_vecenv.pyhooks import names

REQUIRED = ("env_reset", "env_step", "env_observe")
"""Hooks of every env."""

HOOKS = (*REQUIRED, "env_observe_step", "env_settle")
"""All hooks, in the order of their numbers in callbacks."""

MODULE = "gpu_vecenv.pyhooks"

NESTING = 60
"""Blocks and operations inside one another that a function may have. Compilers refuse text that is nested deeper by far."""

CHAIN = 150
"""``elif`` behind one another that lead to a line. Python and compilers nest each in the ``else`` of the one before."""

TOO_DEEP = "too many branches or calls inside one another; write a loop or a table"
"""Message for code that is too deep for the stack of Python."""


class HooksFile:
    """Functions, constants and imported names of a file of hooks.

    Args:
        path: the file, for messages.
        text: what it holds.

    Attributes:
        path: the file.
        text: what it holds.
        functions: functions by name.
        constants: numbers by name, as bool, np.int32 or np.float32.
        imported: what the file calls the names of this package, and the names.
        foreign: names that it imports from other modules, and those modules.

    Raises:
        HookError: the file is no Python, or has more than imports, constants and functions at its margin.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.where = "module"
        self.functions: dict[str, ast.FunctionDef] = {}
        self.constants: dict[str, Any] = {}
        self.imported: dict[str, str] = {}
        self.foreign: dict[str, str] = {}
        for node in self.parsed().body:
            self._read(node)
        for name in REQUIRED:
            if name not in self.functions:
                self.fail(None, f"the file has no function {name}(w); an env needs {', '.join(REQUIRED)}")

    def fail(self, node: ast.AST | None, message: str) -> NoReturn:
        """Raise HookError for a place in the file."""
        raise HookError(f"{self.path}:{getattr(node, 'lineno', 1)}: {self.where}: {message}.")

    def quoted(self, node: ast.AST) -> str:
        """Return the text of a part of the file for messages."""
        lines = ast.unparse(node).splitlines()
        return repr(lines[0] if len(lines[0]) <= 80 else lines[0][:77] + "...")

    def parsed(self) -> ast.Module:
        """Return a new syntax tree of the file."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as a comparison of literals with `is`, which is refused later
                tree = ast.parse(self.text, str(self.path))
        except SyntaxError as error:
            raise HookError(f"{self.path}:{error.lineno or 1}: module: no Python: {error.msg}.") from error
        except (RecursionError, MemoryError, ValueError) as error:
            raise HookError(f"{self.path}:1: module: Python cannot read the file: {error}.") from error
        self._check_nesting(tree)
        return tree

    def _check_nesting(self, tree: ast.Module) -> None:
        """Refuse deep nests and long chains, without recursion. What reads the tree later recurses over both."""
        waiting: list[tuple[ast.AST, int, int]] = [(tree, 0, 0)]
        while waiting:
            node, depth, chain = waiting.pop()
            if depth > NESTING:
                self.fail(node, f"the code is nested more than {NESTING} deep; move a part into a function or a local")
            if chain > CHAIN:
                self.fail(node, f"more than {CHAIN} elif behind one another; use a table of the spec, or helpers for parts")
            is_elif = isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
            for child in ast.iter_child_nodes(node):
                chained = is_elif and child is node.orelse[0]  # type: ignore[attr-defined]
                deeper = isinstance(child, ast.expr | ast.stmt) and not chained
                waiting.append((child, depth + deeper, chain + chained))

    def _read(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self._new(node, node.name)
            self.functions[node.name] = node
            if node.name.startswith("env_") and node.name not in HOOKS:
                self.fail(node, f"{node.name} is no hook; hooks are {', '.join(HOOKS)}, and helpers do not begin with env_")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            self._constant(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            self.fail(node, "a file of hooks holds imports, constants and functions; move this into a function")

    def refuse_dunder(self, node: ast.AST, name: str) -> None:
        """Refuse a name such as ``__builtins__``, which means something to Python."""
        if name.startswith("__") and name.endswith("__"):
            self.fail(node, f"{name!r} is a name of Python; choose one without two underscores on both sides")

    def _new(self, node: ast.AST, name: str) -> None:
        self.refuse_dunder(node, name)
        if name in {*self.functions, *self.constants, *self.imported} or name in BUILTINS:
            self.fail(node, f"{name!r} already means something else in this file; choose another name")

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = getattr(node, "module", None)
        for alias in node.names:
            name = alias.asname or alias.name
            if module == "__future__":
                continue
            if module == MODULE and not getattr(node, "level", 0):
                if alias.name not in names.__all__:
                    self.fail(node, f"{MODULE} has no {alias.name!r}; it has {', '.join(names.__all__)}")
                self._new(node, name)
                self.imported[name] = alias.name
            else:
                self.foreign[name.split(".")[0]] = module or alias.name

    def _constant(self, node: ast.Assign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if len(targets) != 1 or not isinstance(targets[0], ast.Name):
            self.fail(node, "a constant has one name and one value")
        name = targets[0].id
        self._new(node, name)
        self.constants[name] = self.number(node.value)  # type: ignore[arg-type]

    def number(self, node: ast.expr) -> Any:
        """Compute the value of a constant in 32 bits.

        Raises:
            HookError: not a number, or one that 32 bits do not hold.
        """
        if isinstance(node, ast.Constant):
            return self.literal(node, node.value)
        if isinstance(node, ast.Name):
            if node.id not in self.constants:
                self.fail(node, f"{node.id!r} is no constant of the lines above")
            return self.constants[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            if isinstance(node.operand, ast.Constant) and type(node.operand.value) is int:
                return self.literal(node, -node.operand.value)
            left: Any = np.int32(0) if isinstance(value := self.number(node.operand), np.int32) else np.float32(-0.0)
            return self._computed(node, "-", left, value)
        if isinstance(node, ast.BinOp) and type(node.op) in CONSTANT_OPERATORS:
            operator = CONSTANT_OPERATORS[type(node.op)]
            return self._computed(node, operator, self.number(node.left), self.number(node.right))
        self.fail(node, f"{self.quoted(node)} is no constant; constants are numbers, and + - * / // % of constants")

    def _computed(self, node: ast.AST, operator: str, left: Any, right: Any) -> Any:
        if type(left) is not type(right) or isinstance(left, bool):
            self.fail(node, f"{self.quoted(node)} mixes types; write 2 for an i32 and 2.0 for an f32")
        if (operator == "/") != isinstance(left, np.float32) and operator in ("/", "//", "%"):
            self.fail(node, f"{self.quoted(node)}: / is for f32, // and % are for i32")
        try:
            with np.errstate(all="raise"):
                exact = {"+": left.__add__, "-": left.__sub__, "*": left.__mul__, "/": left.__truediv__,
                         "//": left.__floordiv__, "%": left.__mod__}[operator](right)  # fmt: skip
        except ArithmeticError as error:
            self.fail(node, f"{self.quoted(node)} has no value of 32 bits: {error}")
        return exact

    def literal(self, node: ast.AST, value: Any) -> Any:
        """Return a literal as bool, np.int32 or np.float32."""
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            if not -(2**31) <= value < 2**31:
                self.fail(node, f"{_short(value)} has more than 32 bits; an i32 lies between -2147483648 and 2147483647")
            return np.int32(value)
        if isinstance(value, float):
            with np.errstate(all="ignore"):
                number = np.float32(value)
            digits = repr(value).partition("e")[0].replace(".", "").strip("0")
            if not np.isfinite(number) or (number == 0) != (value == 0):
                self.fail(node, f"{value!r} is beyond the range of an f32; numbers of hooks have 32 bits")
            if len(digits) > 9 and float(number) != value:
                self.fail(node, f"{value!r} needs float64, and numbers of hooks have 32 bits; write nine digits, or declare a "
                                "Constant in the spec, which is computed in double")  # fmt: skip
            return number
        self.fail(node, f"{_short(value)} is no bool, i32 or f32, which are all types of numbers in hooks")


def _short(value: Any) -> str:
    """Return the text of a literal for messages; that of a long integer has no end, and Python refuses it."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


CONSTANT_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}

BUILTINS = frozenset(
    ["abs", "min", "max", "range", "print", "breakpoint"]
)
"""Functions of Python that hooks may call."""

PYTHON = frozenset(dir(builtins))
"""All names of Python itself."""
