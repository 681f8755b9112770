"""Presets of the trainer for envs of other packages. They may be given as text, so that registering imports no trainer."""

from __future__ import annotations

import sys
from typing import Any

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.registration import IDS
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.variants import VARIANTS

REGISTERED_PRESETS: dict[str, Any] = {}
"""Presets that ``register_preset()`` received, by id."""


def register_preset(env_id: str, preset: Any) -> None:
    """Register options for training an env of another package. They replace what a run leaves out.

    Call it in the module that registers the id. A run of ``module:MyEnv-v0`` imports that module first.

    Args:
        env_id: the registered id, with its namespace if it has one, and without a module.
        preset: a ``gpu_vecenv.train.Preset``, or its place as the text ``module:NAME``, which is imported when a run needs it.
            Text saves the import of the trainer in programs that do not train.

    Raises:
        ParameterError: another type, an id of this package, or another preset for an id that has one.
    """
    if not isinstance(env_id, str) or not env_id or ":" in env_id:
        got = abbreviated(env_id)
        raise ParameterError(f"register_preset: expected an env id without a module, such as 'MyEnv-v0', got {got}.")
    if not _is_preset(preset):
        expected = "a gpu_vecenv.train.Preset, or its place as 'module:NAME'"
        raise ParameterError(f"register_preset: expected for {env_id!r} {expected}, got {abbreviated(preset)}.")
    if env_id in IDS or env_id in VARIANTS:
        raise ParameterError(f"register_preset: expected an id of another package, got {env_id!r}, which has a preset.")
    before = REGISTERED_PRESETS.setdefault(env_id, preset)
    if before != preset:
        got = f"{abbreviated(before)} and {abbreviated(preset)}"
        raise ParameterError(f"register_preset: expected one preset for {env_id!r}, got {got}.")


def _is_preset(value: object) -> bool:
    if isinstance(value, str):
        module, colon, name = value.partition(":")
        return colon == ":" and name.isidentifier() and all(part.isidentifier() for part in module.split("."))
    presets = sys.modules.get("gpu_vecenv.train.config.presets")  # imported already if the value is a Preset
    return presets is not None and isinstance(value, presets.Preset)
