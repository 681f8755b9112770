"""Hooks written in Python: the names that they import.

``EnvSpec(kernel=Path(__file__).with_name("hooks.py"))`` takes the hooks of an env from a file of Python, which holds
``env_reset(w)``, ``env_step(w)`` and ``env_observe(w)``. They are translated to the C++ of kernels. With ``device="python"``
Python itself runs them, for pdb and with checks. ``World`` and ``Agent`` document what hooks can name.
"""

from gpu_vecenv.pyhooks.names import (
    Agent,
    World,
    clamp,
    cos,
    dividing,
    exp,
    f32,
    floor,
    i32,
    log,
    log2,
    mod,
    pow,
    sin,
    sincos,
    sincos_small,
    softplus,
    sqrt,
    tanh,
)

__all__ = ["Agent", "World", "clamp", "cos", "dividing", "exp", "f32", "floor", "i32", "log", "log2", "mod", "pow", "sin",
           "sincos", "sincos_small", "softplus", "sqrt", "tanh"]  # fmt: skip
