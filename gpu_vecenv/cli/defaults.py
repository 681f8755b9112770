"""Help of the command line's options; it comes from the options' dataclasses and the presets themselves."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import tyro

from gpu_vecenv.train.config import PRESETS, AlgorithmPreset, AutoSizes, NetworkConfig, PolicyConfig, Preset, TrainConfig
from gpu_vecenv.train.config.algorithms import ALGORITHMS
from gpu_vecenv.train.config.presets import OF_RUN


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
        default = by_algorithm(name) if name in OF_RUN else str(getattr(TrainConfig, name))
    text = f"{docs(TrainConfig)[name]} {also}".strip()
    return tyro.conf.arg(name=option, metavar=metavar, help=text, help_behavior_hint=default and f"(default: {default})")


@functools.cache
def by_algorithm(*path: str) -> str:
    """Return the defaults of PPO for a preset's field, and those of each other algorithm that differ; see ``by_env()``."""

    def defaults(algorithm: str) -> str:
        return _by_env(lambda env, device: _get(_preset(env, algorithm, device), path))

    usual, by_name = defaults("ppo"), {name: defaults(name) for name in built_in()}
    return "; ".join([usual, *(f"with {name}: {text}" for name, text in by_name.items() if text != usual)])


def by_env(value_of: Callable[[Preset], object]) -> str:
    """Return a default, which the function reads from a preset, by env: ``8 for WarpTag-v0; 64 for others``."""
    return _by_env(lambda env, device: value_of(_of_env(env).on(device)))


def _by_env(value_of: Callable[[str | None, str], object]) -> str:
    """Return the text of ``by_env()`` for a function of the name of an env and a device; None is an env without a preset."""
    general = value_of(None, "cuda")
    envs: dict[object, list[str]] = {}
    for env in PRESETS:
        value = value_of(env, "cuda")
        if value != general:
            envs.setdefault(value, []).append(env)
    values = [f"{value} for {', '.join(names)}" for value, names in envs.items()]
    values.append(f"{general} for others" if values else str(general))
    on_cpu = {env: value for env in PRESETS if (value := value_of(env, "cpu")) != value_of(env, "cuda")}
    return "; ".join([*values, *(f"on the CPU {value} for {env}" for env, value in on_cpu.items())])


def _of_env(env: str | None) -> Preset:
    return Preset() if env is None else PRESETS[env]


def env_params(preset: Preset) -> str:
    """Return the env parameters of a preset as words."""
    return " ".join(f"{name}={x}" for name, x in preset.env_params({}).items()) or "the env's"


def built_in() -> list[str]:
    """Return the names of this package's algorithms beside PPO."""
    places = {name: algorithm.make for name, algorithm in ALGORITHMS.items() if name != "ppo"}
    return [name for name, place in places.items() if isinstance(place, str) and place.startswith("gpu_vecenv.")]


@functools.cache
def _preset(env: str | None, algorithm: str, device: str) -> AlgorithmPreset:
    """Return the preset of an algorithm for an env on a device. Each line of the help asks for all of them."""
    return _of_env(env).on(device).of(algorithm)


@functools.cache
def options_of(algorithm: str) -> str:
    """Return a line for each option of an algorithm: name, description and default."""
    cls: Any = ALGORITHMS[algorithm].config_class
    usual = cls()
    before = "" if algorithm == "ppo" else f"{algorithm}."

    def default(name: str) -> str:
        return _by_env(lambda env, device: getattr(_preset(env, algorithm, device).options or usual, name))

    return "\n".join(f"{before}{f.name}: {docs(cls)[f.name]} (default: {default(f.name)})" for f in dataclasses.fields(cls))


@functools.cache
def network_fields() -> str:
    """Return a line for each field of ``network``: name, description and default."""
    fields = dataclasses.fields(NetworkConfig)
    return "\n".join(f"{f.name}: {docs(NetworkConfig)[f.name]} (default: {by_algorithm('network', f.name)})" for f in fields)


def policy_fields() -> str:
    """Return a line for each field of an entry of ``policies``: name and description."""
    ends = {"ppo": ".FIELD", "network": ".FIELD"}
    return "\n".join(f"NAME.{field}{ends.get(field, '')}: {text}" for field, text in docs(PolicyConfig).items())


def auto_sizes_fields() -> str:
    """Return a line for each field of ``auto_sizes``: form, description and default."""

    def line(field: dataclasses.Field[Any]) -> str:
        text = docs(AutoSizes)[field.name].replace("None: ", "Without it: ")
        if field.default is None:
            return f"{field.name}=(LEAST,MOST): {text}"
        return f"{field.name}: {text} (default: {field.default})"

    return "\n".join(map(line, dataclasses.fields(AutoSizes)))


def _get(value: AlgorithmPreset, path: tuple[str, ...]) -> Any:
    return functools.reduce(getattr, path, value)


@functools.cache
def docs(cls: type) -> dict[str, str]:
    """Return the docstring under each field, also of the classes that it extends, in one line; it is parsed from the source."""
    (definition,) = ast.parse(inspect.getsource(cls)).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    docs_of_fields = {name: text for base in cls.__bases__ if dataclasses.is_dataclass(base) for name, text in docs(base).items()}
    for field, text in zip(body, body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            docs_of_fields[ast.unparse(field.target)] = " ".join(str(ast.literal_eval(text.value)).replace("``", "").split())
    return docs_of_fields
