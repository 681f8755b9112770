"""Hooks as Python runs them under ``device="python"``: literals of 32 bits, checked operators, and one lane after the other."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_vecenv.pyhooks import names
from gpu_vecenv.pyhooks.source import HOOKS, TOO_DEEP, HooksFile

# Names that the interpreter adds to a file begin with a dot, so that no name of the file is one of them.

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


class _Functions(ast.NodeTransformer):
    """Changes the bodies of functions. Lines stay those of the file, so that pdb shows it.

    Args:
        barriers: lines before which a barrier stands, with the names of the hooks.
    """

    def __init__(self, barriers: list[tuple[str, int]]) -> None:
        self.barriers = set(barriers)
        self.hook = ""
        self.phases = False  # True where a loop over agents is a phase

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave the names of types out, and mark what is a phase."""
        self.hook, self.phases = node.name, node.name in HOOKS
        for argument in node.args.args:
            argument.annotation = None
        node.returns, node.decorator_list = None, []
        node.body = self._block(node.body)
        return node

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for node in body:
            if self.phases and (self.hook, node.lineno) in self.barriers:
                statements.append(_at(node, ast.Expr(_call(".barrier"))))
            new = self.visit(node)
            statements += new if isinstance(new, list) else [new]
        return statements

    def _inner(self, body: list[ast.stmt]) -> list[ast.stmt]:
        phases, self.phases = self.phases, False
        statements = self._block(body)
        self.phases = phases
        return statements

    def visit_If(self, node: ast.If) -> Any:
        """Run ``if w.once`` as the first lane."""
        if ast.unparse(node.test) == "w.once":
            item = ast.withitem(_at(node.test, _call(".first")))
            return _at(node, ast.With([item], self._inner(node.body)))
        node.test = self.visit(node.test)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        """Let loops inside phases, and in helpers, run in one lane."""
        ranged = isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range"
        node.iter = self.visit(node.iter)
        if not self.phases and not ranged:
            node.iter = _at(node.iter, _call(".serial", node.iter))
        node.body = self._inner(node.body)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """Change a loop of one lane."""
        node.test, node.body = self.visit(node.test), self._inner(node.body)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Leave the type out."""
        assert node.value is not None
        return _at(node, ast.Assign([node.target], self.visit(node.value)))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """Write ``x += y`` as ``x = x + y``."""
        load = copy.deepcopy(node.target)
        load.ctx = ast.Load()
        target = self.visit(node.target)
        return _at(node, ast.Assign([target], self.visit(_at(node, ast.BinOp(load, node.op, node.value)))))

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Let print() read without a trace."""
        if isinstance(node.value, ast.Constant):
            return node
        node.value = self.visit(node.value)
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "print":
            empty = ast.arguments([], [], None, [], [], None, [])
            node.value = _at(node, _call(".untraced", ast.Lambda(empty, node.value)))
        return node

    def visit_Constant(self, node: ast.Constant) -> Any:
        """Make a literal 32 bits wide."""
        kind = {int: ".i32", float: ".f32"}.get(type(node.value))
        return node if kind is None else _at(node, _call(kind, node))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Change the numbers of a text, also those in its formats."""
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
                part.format_spec = part.format_spec and self.visit(part.format_spec)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Make a negative literal one number, because the smallest has no positive one."""
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            number: Any = node.operand.value
            return self.visit_Constant(_at(node, ast.Constant(-number)))
        self.generic_visit(node)
        return _at(node, _call(".negative", node.operand)) if isinstance(node.op, ast.USub) else node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Check divisors, which NumPy lets pass."""
        self.generic_visit(node)
        name = {ast.FloorDiv: ".quotient", ast.Mod: ".rest"}.get(type(node.op))
        return node if name is None else _at(node, _call(name, node.left, node.right))


def _at(place: ast.AST, node: Any) -> Any:
    return ast.fix_missing_locations(ast.copy_location(node, place))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def quotient(x: np.int32, y: np.int32) -> np.int32:
    """Return x // y of i32s.

    Raises:
        ZeroDivisionError: y is 0.
        OverflowError: the result has more than 32 bits.
    """
    if y == 0:
        raise ZeroDivisionError(f"{x} // 0")
    return _fitting(int(x) // int(y), f"{x} // {y}")


def rest(x: np.int32, y: np.int32) -> np.int32:
    """Return x % y of i32s; errors as in ``quotient()``."""
    if y == 0:
        raise ZeroDivisionError(f"{x} % 0")
    _fitting(int(x) // int(y), f"{x} % {y}")  # processors divide to find it
    return np.int32(int(x) % int(y))


def negative(x: Any) -> Any:
    """Return -x; for an i32, OverflowError if it has more than 32 bits."""
    return -x if isinstance(x, np.floating) else _fitting(-int(x), f"-({x})")


def magnitude(x: Any) -> Any:
    """Return the absolute value; errors as in ``negative()``."""
    return np.abs(x) if isinstance(x, np.floating) else _fitting(abs(int(x)), f"abs({x})")


def range_i32(*limits: np.int32) -> Any:
    """Return the numbers of ``range()`` as i32.

    Raises:
        OverflowError: the last step passes the range of an i32.
    """
    steps = range(*(int(limit) for limit in limits))
    _fitting(steps.stop + (steps.step if abs(steps.step) > 1 else 0), f"range{limits}")
    return map(np.int32, steps)


def _fitting(number: int, what: str) -> np.int32:
    if not INT_MIN <= number <= INT_MAX:
        raise OverflowError(f"overflow: {what} is {number}, which has more than 32 bits")
    return np.int32(number)


def load_hooks(
    file: HooksFile, used: set[str], barriers: list[tuple[str, int]], of_the_world: dict[str, Callable[..., Any]]
) -> dict[str, Any]:
    """Return the functions of a file as Python runs them, by name.

    Args:
        file: the file, which was translated without an error.
        used: its hooks and the helpers that these call.
        barriers: barriers that the translator placed.
        of_the_world: functions that depend on the world: ``.barrier``, ``.first``, ``.serial`` and ``.untraced``.

    Raises:
        HookError: Python's stack does not suffice.
    """
    tree = file.parsed()
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in used]
    transform = _Functions(barriers)
    namespace: dict[str, Any] = {
        "__name__": file.path.stem, "__file__": str(file.path),
        ".i32": np.int32, ".f32": np.float32, ".quotient": quotient, ".rest": rest, ".negative": negative,
        "abs": magnitude, "range": range_i32, **of_the_world, **file.constants,
        **{name: getattr(names, of_package) for name, of_package in file.imported.items()},
    }  # fmt: skip
    try:
        tree.body = [transform.visit(node) for node in tree.body]
        exec(compile(ast.fix_missing_locations(tree), str(file.path), "exec"), namespace)
    except RecursionError:
        file.where = "module"
        file.fail(None, TOO_DEEP)
    return {name: namespace[name] for name in used}
