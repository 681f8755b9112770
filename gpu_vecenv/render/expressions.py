"""Numbers and colours of a scene: expressions of one world's state as data, which Python and a page compute alike.

Python's operators and the functions of this module build them from the fields of the state and from plain numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpu_vecenv.errors import SpecError
from gpu_vecenv.render.style import Colour, Palette, mix

Json = Any
Values = Any
"""A number, or an array with an axis for each variable."""

def _condition(holds: Callable[..., Values]) -> Callable[..., Values]:
    """Return a function whose result is 0 or 1; NumPy would add truth values to one of them."""
    return lambda *args: holds(*args) + 0.0


OPERATIONS: dict[str, Callable[..., Values]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.mod, "neg": np.negative, "abs": np.abs,
    "floor": np.floor, "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt, "log": np.log, "least": np.minimum, "most": np.maximum,
    "if": np.where, "<": _condition(np.less), "<=": _condition(np.less_equal), "==": _condition(np.equal),
    "&": _condition(np.logical_and), "|": _condition(np.logical_or), "!": _condition(np.logical_not),
}  # fmt: skip
"""Operations by name."""

REDUCTIONS: dict[str, Callable[..., Values]] = {"sum": np.sum, "min": np.min, "max": np.max}


class Number:
    """A number that depends on the state. ``json`` is its description: a list of an operation and its arguments."""

    def __init__(self, json: Json) -> None:
        self.json = json

    def __add__(self, other: Operand) -> Number:
        return _operation("+", self, other)

    def __radd__(self, other: Operand) -> Number:
        return _operation("+", other, self)

    def __sub__(self, other: Operand) -> Number:
        return _operation("-", self, other)

    def __rsub__(self, other: Operand) -> Number:
        return _operation("-", other, self)

    def __mul__(self, other: Operand) -> Number:
        return _operation("*", self, other)

    def __rmul__(self, other: Operand) -> Number:
        return _operation("*", other, self)

    def __truediv__(self, other: Operand) -> Number:
        return _operation("/", self, other)

    def __rtruediv__(self, other: Operand) -> Number:
        return _operation("/", other, self)

    def __mod__(self, other: Operand) -> Number:
        return _operation("%", self, other)

    def __floordiv__(self, other: Operand) -> Number:
        return floor(_operation("/", self, other))

    def __lt__(self, other: Operand) -> Number:
        return _operation("<", self, other)

    def __gt__(self, other: Operand) -> Number:
        return _operation("<", other, self)

    def __le__(self, other: Operand) -> Number:
        return _operation("<=", self, other)

    def __ge__(self, other: Operand) -> Number:
        return _operation("<=", other, self)

    def __and__(self, other: Operand) -> Number:
        return _operation("&", self, other)

    __rand__ = __and__

    def __or__(self, other: Operand) -> Number:
        return _operation("|", self, other)

    __ror__ = __or__

    def __invert__(self) -> Number:
        return _operation("!", self)

    def __neg__(self) -> Number:
        return _operation("neg", self)

    def __abs__(self) -> Number:
        return _operation("abs", self)

    def is_(self, other: Operand) -> Number:
        """Return 1 if both numbers are equal, else 0. ``==`` compares descriptions."""
        return _operation("==", self, other)

    def __bool__(self) -> bool:
        raise SpecError(f"a scene cannot branch in Python on a number of the state, {self.json}; use choose() or when=.")


Operand = Number | float


class Ink:
    """A colour by its name in the palette, mixed from others, or chosen by the state."""

    def __init__(self, json: Json) -> None:
        self.json = json


class Inks:
    """The colours of a palette by name, of both themes."""

    def __getattr__(self, name: str) -> Ink:
        if name not in Palette._fields:
            raise SpecError(f"a palette has the colours {', '.join(Palette._fields)}, got {name!r}.")
        return Ink(["ink", name])


def json_of(value: Any) -> Json:
    """Return the description of a number, a colour, or lists of them."""
    if isinstance(value, Number | Ink):
        return value.json
    return [json_of(part) for part in value] if isinstance(value, list | tuple) else value


def _operation(name: str, *operands: Operand) -> Number:
    """Return the result of an operation."""
    return Number([name, *map(json_of, operands)])


def field(name: str, *index: Operand) -> Number:
    """Return a number of a state field; the index has an entry for each axis of the field in one world."""
    return Number(["field", name, *map(json_of, index)])


def sin(x: Operand) -> Number:
    """Return the sine of radians."""
    return _operation("sin", x)


def cos(x: Operand) -> Number:
    """Return the cosine of radians."""
    return _operation("cos", x)


def sqrt(x: Operand) -> Number:
    """Return the square root."""
    return _operation("sqrt", x)


def log(x: Operand) -> Number:
    """Return the natural logarithm."""
    return _operation("log", x)


def floor(x: Operand) -> Number:
    """Return the largest whole number that is not above ``x``."""
    return _operation("floor", x)


def least(x: Operand, y: Operand) -> Number:
    """Return the smaller number."""
    return _operation("least", x, y)


def most(x: Operand, y: Operand) -> Number:
    """Return the larger number."""
    return _operation("most", x, y)


def choose(condition: Operand, x: Any, y: Any) -> Any:
    """Return ``x`` where the condition is not 0, else ``y``; both are numbers, or both are colours."""
    kind = Ink if isinstance(x, Ink) else Number
    return kind(["if", json_of(condition), json_of(x), json_of(y)])


def pick(options: Sequence[Ink], index: Number) -> Ink:
    """Return the colour with this index; the last one beyond the end."""
    *first, last = options
    for place, option in reversed([*enumerate(first)]):
        last = choose(index <= place, option, last)
    return last


def blend(colour: Ink, background: Ink, opacity: Operand) -> Ink:
    """Return a colour laid over another one with an opacity from 0 to 1."""
    return Ink(["mix", colour.json, background.json, json_of(opacity)])


class Table:
    """Plain numbers, such as one for each agent, by an index that may depend on the state: ``Table(numbers)[i]``."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self._numbers = [float(number) for number in numbers]

    def __getitem__(self, index: Operand) -> Number:
        return Number(["table", self._numbers, json_of(index)])


_variables = itertools.count(1)


def new_variable() -> Number:
    """Return a variable that no other expression has."""
    return Number(["i", next(_variables)])


def _reduction(name: str, count: int, number: Callable[[Number], Operand]) -> Number:
    """Return a reduction over a variable of its own."""
    variable = new_variable()
    return Number([name, variable.json[1], count, json_of(number(variable))])


def total(count: int, number: Callable[[Number], Operand]) -> Number:
    """Return the sum of ``number(i)`` for i from 0 to ``count - 1``."""
    return _reduction("sum", count, number)


def smallest(count: int, number: Callable[[Number], Operand]) -> Number:
    """Return the least ``number(i)``; ``count`` is at least 1."""
    return _reduction("min", count, number)


def largest(count: int, number: Callable[[Number], Operand]) -> Number:
    """Return the largest ``number(i)``; ``count`` is at least 1."""
    return _reduction("max", count, number)


# ---- values -------------------------------------------------------------------------------------------------------


class Now:
    """A state, and the values of variables, for which expressions are computed.

    Args:
        state: one world's state fields by name.
        variables: values of variables, arrays of one shape up to axes of length 1.
        remembered: arrays of what a scene remembers, by place.
    """

    def __init__(
        self, state: Mapping[str, Any], variables: Mapping[int, Values] | None = None, remembered: Sequence[Values] = ()
    ) -> None:
        self._state, self._variables, self._remembered = state, variables or {}, remembered

    def along(self, index: int, variables: Mapping[int, Values]) -> Now:
        """Return the values for one entry of the variables, and for further variables."""
        entry = {name: values[index] for name, values in self._variables.items()}
        return Now(self._state, {**entry, **variables}, self._remembered)

    def value(self, json: Json) -> Values:
        """Return the value of a number."""
        if not isinstance(json, list):
            return json
        name, *arguments = json
        if name in ("field", "remembered", "table"):
            known: Any = self._state if name == "field" else self._remembered
            values = np.asarray(arguments[0] if name == "table" else known[arguments[0]])
            return values[tuple(np.asarray(self.value(part)).astype(np.int64) for part in arguments[1:])].astype(np.float64)
        if name == "i":
            return self._variables[arguments[0]]
        if name in REDUCTIONS:
            variable, count, body = arguments
            outer = {one: np.asarray(values)[..., None] for one, values in self._variables.items()}
            inner = Now(self._state, {**outer, variable: np.arange(count)}, self._remembered).value(body)
            return REDUCTIONS[name](np.broadcast_to(inner, np.broadcast_shapes(np.shape(inner), (count,))), axis=-1)
        return OPERATIONS[name](*map(self.value, arguments))

    def values(self, json: Json, count: int) -> list[float]:
        """Return the value for each entry of a variable of this length."""
        if not isinstance(json, list):
            return [json] * count
        return np.broadcast_to(self.value(json), (count,)).tolist()  # type: ignore[no-any-return]

    def colours(self, json: Json, count: int, palette: Palette) -> list[Colour]:
        """Return the colour for each entry of a variable of this length."""
        name, *arguments = json
        if name == "ink":
            return [getattr(palette, arguments[0])] * count
        if name == "mix":
            tops, grounds = (self.colours(part, count, palette) for part in arguments[:2])
            shares = self.values(arguments[2], count)
            return [mix(top, ground, share) for top, ground, share in zip(tops, grounds, shares, strict=True)]
        if_true, if_false = (self.colours(part, count, palette) for part in arguments[1:])
        tests = self.values(arguments[0], count)
        return [one if test else other for test, one, other in zip(tests, if_true, if_false, strict=True)]
