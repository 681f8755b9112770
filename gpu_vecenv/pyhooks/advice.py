"""The words to write in hooks instead of functions of Python and names of other modules."""

from __future__ import annotations

from gpu_vecenv.pyhooks import names
from gpu_vecenv.pyhooks.source import MODULE

INSTEAD = {
    "sum": "write a loop, or w.sum(agents, lambda it: ...)",
    "len": "write w.agents.count(), or a size of the spec",
    "any": "write w.any(agents, lambda it: ...)",
    "all": "write `not w.any(...)`",
    "round": "write floor(x + 0.5)",
    "enumerate": "write `for i in range(n):` and take element i; the number of an agent is me.index",
    "zip": "write `for i in range(n):` and take element i of each",
    "reversed": "write range(n - 1, -1, -1)",
    "map": "write a loop",
    "filter": "write a loop with an `if`",
    "sorted": "min() and max() order two numbers; for more, swap elements of an array of scratch in a loop",
    "divmod": "write x // y and x % y",
    "isinstance": "types are known when the env is made, so leave the test out",
    "type": "types are known when the env is made, so leave the test out",
}
"""For functions of Python."""

NUMERIC = ("math", "numpy", "np", "torch")
"""Modules of numbers, also as files call them that do not import them."""

OF_NUMBERS = {
    "pi": "write the number, 3.14159265",
    "tau": "write the number, 6.28318531",
    "e": "write the number, 2.71828183",
    "inf": "write the largest f32, 3.4028235e38",
    "isnan": "write x != x, which holds for NaN alone",
    "isinf": "write abs(x) > 3.4028235e38",
    "isfinite": "write abs(x) <= 3.4028235e38",
    "fabs": "write abs(x)",
    "abs": "write abs(x)",
    "maximum": "write max(x, y)",
    "minimum": "write min(x, y)",
    "clip": "write clamp(x, low, high) of gpu_vecenv.pyhooks",
    "power": "write pow(x, y) of gpu_vecenv.pyhooks",
    "hypot": "write sqrt(x * x + y * y)",
    "ceil": "write -floor(-x)",
    "float32": "write f32 of gpu_vecenv.pyhooks",
    "int32": "write i32 of gpu_vecenv.pyhooks",
}
"""For names of these modules."""


def of_module(dotted: str, module: str) -> str:
    """Return what to write instead of a name of another module; empty if nothing more is known.

    Args:
        dotted: the name in the file, such as ``np.random.rand``.
        module: from where its first part is imported, such as ``numpy``; empty if the file does not import it.
    """
    path = [*module.split("."), *dotted.split(".")]
    last = path[-1]
    known = last in names.__all__ and last not in ("Agent", "World", "dividing")
    if path[0] == "gpu_vecenv" and (module == MODULE or last in names.__all__):
        return f"import the names themselves: from {MODULE} import {last if last in names.__all__ else 'f32, i32'}"
    if "random" in path:
        return "draw with w.draw(purpose, me.index).uniform(), or .below(n) for an i32"
    if "pdb" in path:
        return 'write breakpoint(), at which device="python" starts pdb'
    if not set(NUMERIC) & set(path[:-1]):
        return ""
    return OF_NUMBERS.get(last) or (f"write {last} of hooks: from {MODULE} import {last}" if known else "")
