"""Options of a vector env that take one of a few values, and those that a caller must leave out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.errors import ParameterError, UnknownParameterError
from gpu_vecenv.spec.validation import abbreviated, require_one_of
from gpu_vecenv.vector.inputs.autoreset import spelled

VALUES: dict[str, tuple[Any, ...]] = {
    "view": ("worlds", "agents"),
    "array": ("torch", "cupy", "numpy", "jax"),
    "render_mode": (None, "rgb_array"),
    "copy": (True, False),
    "debug": (True, False),
}
"""The values of each option."""


def check_options(**options: Any) -> None:
    """Check options by their names.

    Raises:
        ParameterError: a value is none of the option's, or two options exclude each other.
    """
    for name, value in options.items():
        require_one_of(name, value, VALUES[name])
    if options["array"] == "jax" and not options["copy"]:
        raise ParameterError('copy=False overwrites arrays, which JAX treats as immutable; use copy=True or array="torch".')


def refuse_keywords(owner: str, keywords: Mapping[str, Any]) -> None:
    """Refuse the keywords of a call that Gymnasium's interface passes on and that would have no effect.

    Args:
        owner: the call, for the error.
        keywords: keywords of the caller.

    Raises:
        UnknownParameterError: there is a keyword.
    """
    for name, value in keywords.items():
        raise UnknownParameterError(f"{owner} takes no keywords, got {name}={abbreviated(value)}.")


def refuse_fixed(owner: str, keywords: Mapping[str, Any], fixed: Mapping[str, Any], otherwise: str = "") -> None:
    """Refuse keywords that the maker of an env sets itself.

    Args:
        owner: name of the maker, for the error.
        keywords: keywords of the caller.
        fixed: keywords that the maker sets.
        otherwise: end of the error's text: where the keyword can be given.

    Raises:
        ParameterError: a keyword of the caller is among those of the maker.
    """
    for name, value in fixed.items():
        if name in keywords:
            raise ParameterError(f"{owner} needs {name}={spelled(value)!r} and sets it itself; leave out {name}{otherwise}.")
