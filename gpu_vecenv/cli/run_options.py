"""Options of a run on the command line, one for each field of ``TrainConfig``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from gpu_vecenv.cli.defaults import (
    auto_sizes_fields,
    built_in,
    by_env,
    env_params,
    network_fields,
    options_of,
    policy_fields,
    run_option,
)
from gpu_vecenv.cli.key_value import Settings, parse_settings
from gpu_vecenv.train.config import import_env, read_yaml
from gpu_vecenv.train.config.algorithms import ALGORITHMS
from gpu_vecenv.train.errors import ConfigError

WORDS = {"env_kwargs": "env", "policy_map": "policy", "load_policies": "load"}
"""Fields of ``TrainConfig`` whose options have shorter names."""


def option_name(field: str) -> str:
    """Return the option of a field of ``TrainConfig``, such as ``--num-envs``."""
    return f"--{WORDS.get(field, field).replace('_', '-')}"


@dataclass(frozen=True)
class RunOptions:
    """Other options of a run than ``LearningOptions``. None and empty stand for options that are not given."""

    num_envs: Annotated[int | Literal["auto"] | None, run_option("num_envs", "INT|auto")] = None
    auto_sizes: Annotated[
        Settings, run_option("auto_sizes", "KEY=VALUE ...", "", f"By name:\n{auto_sizes_fields()}\n")
    ] = ()
    total_steps: Annotated[int | None, run_option("total_steps", "INT")] = None
    seed: Annotated[int | None, run_option("seed", "INT")] = None
    device: Annotated[str | None, run_option("device", "STR", "auto; with --resume the run's")] = None
    out: Annotated[str | None, run_option("out", "FOLDER", "runs/ENV_ID")] = None
    env_kwargs: Annotated[
        Settings, run_option("env_kwargs", "KEY=VALUE ...", by_env(env_params), "Such as num_taggers=5 num_runners=20.", "env")
    ] = ()
    load_policies: Annotated[Settings, run_option("load_policies", "NAME=FILE ...", "none", option="load")] = ()
    checkpoint_interval: Annotated[int | None, run_option("checkpoint_interval", "INT", "each minute")] = None
    keep_checkpoints: Annotated[int | None, run_option("keep_checkpoints", "INT")] = None
    threads: Annotated[int | None, run_option("threads", "INT", "1; with --resume the run's")] = None
    schedule_steps: Annotated[int | None, run_option("schedule_steps", "INT", "total_steps; with --resume the run's")] = None
    stagger_starts: Annotated[bool | None, run_option("stagger_starts", "{True,False}")] = None
    evaluation_interval: Annotated[int | None, run_option("evaluation_interval", "INT", "never")] = None
    evaluation_episodes: Annotated[int | None, run_option("evaluation_episodes", "INT")] = None
    stop_at: Annotated[float | None, run_option("stop_at", "FLOAT", "never")] = None
    patience: Annotated[int | None, run_option("patience", "INT", "no limit")] = None
    best_of: Annotated[str | None, run_option("best_of", "ROLE", "the first role that learns")] = None
    wandb: Annotated[str | None, run_option("wandb", "PROJECT", "none")] = None
    graph: Annotated[bool | None, run_option("graph", "{True,False}", "on a GPU")] = None
    precision: Annotated[str | None, run_option("precision", "{float32,tf32,bfloat16,float16}")] = None
    shards: Annotated[int | None, run_option("shards", "INT", "one for each process")] = None


@dataclass(frozen=True)
class LearningOptions:
    """Options of a run that say which policies it has and how they learn. None and empty stand for options that are not given."""

    policy_map: Annotated[
        Settings,
        run_option("policy_map", "ROLE=NAME ...", "a policy of its own for each role", "Such as runner=random.", "policy"),
    ] = ()
    policies: Annotated[
        Settings,
        run_option("policies", "NAME.FIELD=VALUE ...", "none", f"Such as runner.ppo.gamma=0.9.\n{policy_fields()}\n"),
    ] = ()
    frozen: Annotated[Settings, run_option("frozen", "NAME ...", "none")] = ()
    kernels: Annotated[str | None, run_option("kernels", "{auto,torch,fused}")] = None
    reward: Annotated[str | None, run_option("reward", "{agent,team}")] = None
    algorithm: Annotated[
        str | None, run_option("algorithm", "[MODULE:]NAME", also="MODULE is imported, which registers the algorithm.")
    ] = None
    ppo: Annotated[Settings, run_option("ppo", "KEY=VALUE ...", "", f"By name:\n{options_of('ppo')}")] = ()
    network: Annotated[Settings, run_option("network", "KEY=VALUE ...", "", f"By name:\n{network_fields()}")] = ()
    algorithms: Annotated[
        Settings,
        run_option(
            "algorithms", "NAME.FIELD=VALUE ...", "", "\n".join(
                ["Such as evolution.sigma=0.2; or --evolution sigma=0.2. (default: none)", *map(options_of, built_in())]
            ),
        ),
    ] = ()


def given_options(*groups: RunOptions | LearningOptions) -> dict[str, Any]:
    """Return the options that are given, as ``TrainConfig.from_options()`` takes them.

    Raises:
        ConfigError: a word has another form than its option, or a name is given twice.
    """
    options = {name: value for group in groups for name, value in vars(group).items() if value not in (None, ())}
    for name in ("env_kwargs", "auto_sizes", "policy_map", "policies", "load_policies", "algorithms", "ppo", "network"):
        if name in options:
            options[name] = parse_settings(options[name], option_name(name))
    for name in ("policy_map", "load_policies"):  # their values are names, even 7 and None
        if name in options:
            options[name] = {key: str(value) for key, value in options[name].items()}
    if "policies" in options:
        import_env(options.get("algorithm"))  # its name is part of the paths of its options
        options["policies"] = _nested(options["policies"])
    for key, value in options.pop("algorithms", {}).items():
        name, dot, field = key.partition(".")
        if not dot:
            raise ConfigError(f"--algorithms: expected NAME.FIELD=VALUE, such as evolution.sigma=0.2, got {key!r}")
        options.setdefault(name, {})[field] = value
    return options


def with_file(options: Mapping[str, Any], file: Path | None) -> dict[str, Any]:
    """Return the options in a YAML file with those given in their place; dicts are merged.

    Raises:
        ConfigError: the file is no YAML.
        OSError: the file cannot be read.
    """
    return dict(options) if file is None else _merged(read_yaml(file), options)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``below`` with the values of ``above`` in their place."""
    both = {name: (below[name], above[name]) for name in above if name in below}
    dicts = {name: _merged(*pair) for name, pair in both.items() if all(isinstance(x, Mapping) for x in pair)}
    return {**below, **above, **dicts}


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Turn ``runner.ppo.gamma`` into ``{"runner": {"ppo": {"gamma": ...}}}``.

    Raises:
        ConfigError: a key has no such form.
    """
    groups = "|".join(map(re.escape, ("network", *ALGORITHMS)))
    form = re.compile(rf"(?P<policy>.+?)\.(?:(?P<group>{groups})\.)?(?P<field>\w+)")
    nested: dict[str, Any] = {}
    for key, value in settings.items():
        path = form.fullmatch(key)
        if path is None:
            raise ConfigError(f"--policies: expected NAME.FIELD=VALUE, such as runner.ppo.gamma=0.9, got {key!r}")
        policy = nested.setdefault(path["policy"], {})
        (policy.setdefault(path["group"], {}) if path["group"] else policy)[path["field"]] = value
    return nested
