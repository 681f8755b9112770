"""Defaults as text, for the help of the command line; they come from the options and presets themselves."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from typing import Any

from gpu_vecenv.train.config import PRESETS, NetworkConfig, PPOConfig, Preset


def by_env(*path: str) -> str:
    """Return the default of a preset's field, such as ``8 for WarpTag-v0, 64 for others``; ``path`` names the field."""
    general = _get(Preset(), path)
    special = {env: _get(preset, path) for env, preset in PRESETS.items()}
    values = [f"{value} for {env}" for env, value in special.items() if value != general]
    return ", ".join([*values, f"{general} for others"]) if values else str(general)


def fields(name: str) -> str:
    """Return a line for each option of ``ppo`` or ``network``: name, description and default."""
    cls: type[PPOConfig] | type[NetworkConfig] = {"ppo": PPOConfig, "network": NetworkConfig}[name]
    docs = _docs(cls)
    return "\n".join(f"{f.name}: {docs[f.name]} (default: {by_env(name, f.name)})" for f in dataclasses.fields(cls))


def _get(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = getattr(value, name)
    return value


def _docs(cls: type) -> dict[str, str]:
    """Return the docstring under each field, in one line; it has to be parsed from the source."""
    (definition,) = ast.parse(inspect.getsource(cls)).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    docs = {}
    for field, text in zip(body, body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            docs[ast.unparse(field.target)] = " ".join(str(ast.literal_eval(text.value)).replace("``", "").split())
    return docs
