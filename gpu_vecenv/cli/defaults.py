"""Defaults as text, for the help of the command line: read off the options and presets themselves."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from typing import Any

from gpu_vecenv.train.config import NetworkConfig, PPOConfig
from gpu_vecenv.train.presets import PRESETS, Preset


def by_env(*path: str) -> str:
    """The default of a field of the presets, such as ``8 for WarpTag-v0, 64 for others``; ``path`` leads to the field."""
    usual = _get(Preset(), path)
    special = {env: _get(preset, path) for env, preset in PRESETS.items()}
    parts = [f"{value} for {env}" for env, value in special.items() if value != usual]
    return ", ".join([*parts, f"{usual} for others"]) if parts else str(usual)


def fields(name: str) -> str:
    """A line for each option of ``ppo`` or ``network``: its name, what it is, and its default."""
    cls: type[PPOConfig] | type[NetworkConfig] = {"ppo": PPOConfig, "network": NetworkConfig}[name]
    docs = _docs(cls)
    return "\n".join(f"{f.name}: {docs[f.name]} (default: {by_env(name, f.name)})" for f in dataclasses.fields(cls))


def _get(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = getattr(value, name)
    return value


def _docs(cls: type) -> dict[str, str]:
    """The text under each field, in one line; Python keeps it in the source alone."""
    (definition,) = ast.parse(inspect.getsource(cls)).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    docs = {}
    for field, text in zip(body, body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            docs[ast.unparse(field.target)] = " ".join(str(ast.literal_eval(text.value)).replace("``", "").split())
    return docs
