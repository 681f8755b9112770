"""Functions that hooks in Python import. Under ``device="python"`` they give the bits of compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_vecenv.errors import HookFault
from gpu_vecenv.pyhooks.interface import Agent, World

__all__ = ["Agent", "World", "clamp", "cos", "dividing", "exp", "f32", "floor", "i32", "log", "log2", "mod", "pow", "sin",
           "sincos", "sincos_small", "softplus", "sqrt", "tanh"]  # fmt: skip

library: dict[str, Callable[..., float]] = {}
"""Functions of ``kernels/lib``, compiled for this processor, by name. The back end of ``device="python"`` fills it."""

FUNCTIONS = {"sqrt": 1, "floor": 1, "mod": 2, "clamp": 3, "exp": 1, "log": 1, "log2": 1, "pow": 2, "softplus": 1, "tanh": 1}
"""Functions of f32 that are ``gv_NAME`` in kernels, and their numbers of arguments."""


def f32(x: Any) -> np.float32:
    """Convert an i32, an f32 or a bool to f32, and name the type in signatures: ``def speed(w, force: f32) -> f32``."""
    return np.float32(x)


def i32(x: Any) -> np.int32:
    """Convert an f32, an i32 or a bool to i32, towards 0, and name the type in signatures.

    Raises:
        OverflowError: an f32 that no i32 holds, of which processors make different integers.
    """
    if not -2147483648.0 <= float(x) < 2147483648.0:
        raise OverflowError(f"i32({x!s}): an i32 lies between -2147483648 and 2147483647")
    return np.int32(int(x))


def dividing(helper: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a helper whose divisions share one test on a GPU, which is faster if it has several. The bits are the same.

    The helper returns f32s and changes nothing. It has no ``while``, as it may run twice, first with quotients that may be NaN.
    """
    return helper


def _call_compiled(name: str, *arguments: Any) -> np.float32:
    """Return the result of a compiled function.

    Raises:
        HookFault: no env has compiled it yet.
    """
    if name not in library:
        raise HookFault(f'{name}() is compiled with the env; make an env with device="python" first.')
    return np.float32(library[name](*map(float, arguments)))


def sqrt(x: Any) -> np.float32:
    """Square root of an f32, correctly rounded; NaN below 0."""
    return _call_compiled("sqrt", x)


def floor(x: Any) -> np.float32:
    """Largest whole f32 up to x. ``i32(floor(x))`` rounds down; ``i32(x)`` rounds towards 0."""
    return _call_compiled("floor", x)


def mod(x: Any, y: Any) -> np.float32:
    """Floor modulo of f32s for y > 0, such as an angle in one turn. For i32 there is ``%``."""
    return _call_compiled("mod", x, y)


def clamp(x: Any, low: Any, high: Any) -> np.float32:
    """x, not below ``low`` and not above ``high``, all f32."""
    return _call_compiled("clamp", x, low, high)


def exp(x: Any) -> np.float32:
    """E to the power x, within 1 ulp."""
    return _call_compiled("exp", x)


def log(x: Any) -> np.float32:
    """Natural logarithm, within 1 ulp; minus infinity at 0, NaN below."""
    return _call_compiled("log", x)


def log2(x: Any) -> np.float32:
    """Logarithm to base 2, within 1.5 ulps; exact for powers of 2."""
    return _call_compiled("log2", x)


def pow(x: Any, y: Any) -> np.float32:
    """X to the power y, within 0.501 ulps; special arguments as C's ``pow()``."""
    return _call_compiled("pow", x, y)


def softplus(x: Any) -> np.float32:
    """ln(1 + e^x), within 2 ulps."""
    return _call_compiled("softplus", x)


def tanh(x: Any) -> np.float32:
    """Hyperbolic tangent, within 1.5 ulps."""
    return _call_compiled("tanh", x)


def sin(x: Any) -> np.float32:
    """Sine of x radians; the absolute error is below 8e-8 for x up to 8192. ``sincos`` gives both for the price of one."""
    return _call_compiled("sin", x)


def cos(x: Any) -> np.float32:
    """Cosine of x radians, as exact as ``sin``."""
    return _call_compiled("cos", x)


def sincos(x: Any) -> tuple[np.float32, np.float32]:
    """Sine and cosine of x radians, as exact as ``sin``."""
    return sin(x), cos(x)


def sincos_small(x: Any) -> tuple[np.float32, np.float32]:
    """Give the bits of ``sincos``, faster on a GPU if most angles lie between -pi / 4 and pi / 4."""
    return sin(x), cos(x)
