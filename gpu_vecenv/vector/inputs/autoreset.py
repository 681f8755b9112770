"""Gymnasium's three autoreset modes: when the env resets finished worlds."""

from __future__ import annotations

from gymnasium.vector import AutoresetMode

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.validation import abbreviated

KERNEL_MODE = {AutoresetMode.NEXT_STEP: 0, AutoresetMode.SAME_STEP: 1, AutoresetMode.DISABLED: 2}
"""Values of GV_NEXT_STEP, GV_SAME_STEP and GV_DISABLED in protocol.h."""

_SPELLINGS = {mode.name.lower(): mode for mode in AutoresetMode} | {mode.value: mode for mode in AutoresetMode}


def spelled(value: object) -> object:
    """Return a mode's name in lower case, as error messages spell it, and any other value unchanged."""
    return value.name.lower() if isinstance(value, AutoresetMode) else value


def parse_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """Return the mode for a mode, its value (``"SameStep"``) or its name in lower case (``"same_step"``).

    Raises:
        ParameterError: another value.
    """
    if isinstance(mode, AutoresetMode):
        return mode
    if not isinstance(mode, str) or mode not in _SPELLINGS:
        raise ParameterError(f"autoreset_mode must be one of {', '.join(_SPELLINGS)}, got {abbreviated(mode)}.")
    return _SPELLINGS[mode]
