"""Help of the command line's options; it comes from the options' dataclasses and the presets themselves."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
from typing import Any

import tyro

from gpu_vecenv.train.config import PRESETS, NetworkConfig, PolicyConfig, PPOConfig, Preset, TrainConfig


def run_option(name: str, metavar: str, default: str | None = None, also: str = "", option: str | None = None) -> Any:
    """Return the help of an option of a run: the description of the field of ``TrainConfig``, and its default.

    Args:
        name: the field.
        metavar: form of the value, such as ``KEY=VALUE``.
        default: the default as shown, if the field's own says too little; empty if ``also`` has it.
        also: more text.
        option: name of the option, if it is not the field's.
    """
    if default is None:
        preset = name in {f.name for f in dataclasses.fields(Preset)}
        default = by_env(name) if preset else str(getattr(TrainConfig, name))
    text = f"{docs(TrainConfig)[name]} {also}".strip()
    return tyro.conf.arg(name=option, metavar=metavar, help=text, help_behavior_hint=default and f"(default: {default})")


def by_env(*path: str) -> str:
    """Return the default of a preset's field, such as ``8 for WarpTag-v0; 64 for others``; ``path`` names the field."""
    general = _get(Preset(), path)
    envs: dict[object, list[str]] = {}
    for env, preset in PRESETS.items():
        value = _get(preset, path)
        if value != general:
            envs.setdefault(value, []).append(env)
    values = [f"{value} for {', '.join(names)}" for value, names in envs.items()]
    return "; ".join([*values, f"{general} for others"]) if values else str(general)


def fields(name: str) -> str:
    """Return a line for each option of ``ppo``, ``network`` or ``policies``: name, description and default."""
    if name == "policies":
        ends = {"ppo": ".FIELD", "network": ".FIELD"}
        return "\n".join(f"NAME.{field}{ends.get(field, '')}: {text}" for field, text in docs(PolicyConfig).items())
    cls = PPOConfig if name == "ppo" else NetworkConfig
    return "\n".join(f"{f.name}: {docs(cls)[f.name]} (default: {by_env(name, f.name)})" for f in dataclasses.fields(cls))


def _get(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.env_params({}) if name == "env_kwargs" else getattr(value, name)
    if isinstance(value, dict):
        return " ".join(f"{name}={x}" for name, x in value.items()) or "the env's"
    return value


@functools.cache
def docs(cls: type) -> dict[str, str]:
    """Return the docstring under each field, in one line; it has to be parsed from the source."""
    (definition,) = ast.parse(inspect.getsource(cls)).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    docs_of_fields = {}
    for field, text in zip(body, body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            docs_of_fields[ast.unparse(field.target)] = " ".join(str(ast.literal_eval(text.value)).replace("``", "").split())
    return docs_of_fields
