"""Options of a vector env that take one of a few values."""

from __future__ import annotations

from typing import Any

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.given import require_one_of

VALUES: dict[str, tuple[Any, ...]] = {
    "view": ("worlds", "agents"),
    "array": ("torch", "cupy", "numpy", "jax"),
    "render_mode": (None, "rgb_array"),
    "copy": (True, False),
    "debug": (True, False),
}
"""The values of each option."""


def check_options(**given: Any) -> None:
    """Check options by their names.

    Raises:
        ParameterError: a value is none of the option's, or two options exclude each other.
    """
    for name, value in given.items():
        require_one_of(name, value, VALUES[name])
    if given["array"] == "jax" and not given["copy"]:
        raise ParameterError('copy=False overwrites arrays, which JAX treats as immutable; use copy=True or array="torch".')
