"""Presets: the keywords of a vector env that a library needs, under the name of the library."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from gymnasium.vector import AutoresetMode

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.vector.inputs.autoreset import parse_autoreset_mode

PRESETS: dict[str, dict[str, Any]] = {
    "rllib": {"array": "numpy", "autoreset_mode": AutoresetMode.NEXT_STEP, "copy": True},
}
"""Keywords by preset."""

RLLIB_RUNNER = "ray.rllib.env.single_agent_env_runner"
"""Module of RLlib whose ``make_env`` makes vector envs."""

_PASSED_THROUGH = ("gymnasium.envs.registration", "gpu_vecenv.vector.env.vector_env", __name__)
"""Modules whose functions call one another between RLlib's call of ``gymnasium.make_vec`` and the constructor."""

Constructor = TypeVar("Constructor", bound=Callable[..., None])


def with_preset(constructor: Constructor) -> Constructor:
    """Make a constructor take the keywords of its keyword ``preset``.

    Raises:
        ParameterError: an unknown preset, or a keyword that differs from the preset.
    """

    @functools.wraps(constructor)
    def construct(*args: Any, **keywords: Any) -> None:
        if keywords.get("preset") is not None:
            keywords |= preset_keywords(keywords)
        constructor(*args, **keywords)

    return construct  # type: ignore[return-value]  # it takes what the constructor takes


def preset_keywords(keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of the preset ``keywords["preset"]``.

    Raises:
        ParameterError: an unknown preset, or a keyword in ``keywords`` that differs from the preset.
    """
    preset = keywords["preset"]
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ParameterError(f"preset must be one of {', '.join(map(repr, PRESETS))}, or None; got {abbreviated(preset)}.")
    for name, value in PRESETS[preset].items():
        if name in keywords:
            same = parse_autoreset_mode(keywords[name]) if name == "autoreset_mode" else keywords[name]
            if type(same) is not type(value) or same != value:
                expected = value.name.lower() if isinstance(value, AutoresetMode) else value
                got = f"got {abbreviated(keywords[name])}; leave out one of the two"
                raise ParameterError(f"preset={preset!r} needs {name}={expected!r}, {got}.")
    return PRESETS[preset]


def check_reader(env_name: str, **keywords: Any) -> None:
    """Refuse an env that RLlib makes without the keywords of its preset.

    RLlib reads each autoreset mode as next-step, and keeps arrays by reference. Other envs give it wrong observations, without an
    error.

    Args:
        env_name: name of the env, for messages.
        keywords: the env's values of the keywords of the preset "rllib".

    Raises:
        ParameterError: RLlib makes the env itself, by its id. If a function of the user makes the env for RLlib, there is only a
            warning, because that function may wrap the env or use it for something else.
    """
    wrong = [name for name, value in PRESETS["rllib"].items() if keywords[name] != value]
    if not wrong or RLLIB_RUNNER not in sys.modules:
        return
    frame, direct = sys._getframe(1), True
    while (frame.f_globals.get("__name__"), frame.f_code.co_name) != (RLLIB_RUNNER, "make_env"):
        direct = direct and frame.f_globals.get("__name__") in _PASSED_THROUGH
        if frame.f_back is None:
            return
        frame = frame.f_back
    text = (
        f'{env_name}: RLlib needs an env made with preset="rllib". Without it, RLlib stores wrong observations. The preset sets '
        f"another value of {' and '.join(wrong)}."
    )
    if direct:
        raise ParameterError(f'{text} Use env_config={{"preset": "rllib"}}.')
    if keywords["array"] == "numpy" and keywords["autoreset_mode"] is not AutoresetMode.DISABLED:  # single envs have that mode
        warnings.warn(text, stacklevel=5)  # the caller of gymnasium.make_vec
