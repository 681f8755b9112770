"""Options of the commands ``eval`` and ``watch`` that say who plays in which env."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

from gpu_vecenv.cli.key_value import parse_settings
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config
from gpu_vecenv.train.run_folder.runs import names_env
from gpu_vecenv.train.runner.opponents import first_run


class WhoPlays(NamedTuple):
    """Arguments of ``evaluate()`` and ``watch()``."""

    target: str | TrainConfig | None
    """A run, or an env without one; None takes the env of the first run among the policies."""
    policy_map: dict[str, str]
    """Role to who acts for it."""
    changes: dict[str, Any]
    """Options of the run that change."""


def who_plays(run: str | None, policy: Iterable[str], env: Iterable[str], threads: int | None, device: str) -> WhoPlays:
    """Return who plays, by words of the command line.

    Args:
        run: a run's folder, a checkpoint file, an env id or None.
        policy: words ROLE=VALUE.
        env: words KEY=VALUE; other parameters of the env are those of the run.
        threads: CPU threads; None: those of the run.
        device: device of the env.

    Raises:
        ConfigError: a word has another form.
        CheckpointError: a checkpoint is unusable.
    """
    policy_map = {role: str(value) for role, value in parse_settings(policy, "--policy").items()}
    params = parse_settings(env, "--env")
    changes: dict[str, Any] = {"device": device, **({} if threads is None else {"threads": threads})}
    target: str | TrainConfig | None = run
    if run is not None and names_env(run):
        target = TrainConfig(run, env_kwargs=params, policy_map={})
    elif params:
        changes["env_kwargs"] = {**_env_kwargs(run, policy_map), **params}
    return WhoPlays(target, policy_map, changes)


def _env_kwargs(run: str | None, policy_map: dict[str, str]) -> dict[str, Any]:
    """Return the parameters of the env of a run, or of the first run among the policies."""
    source = None if run is not None else first_run(policy_map)
    path = run if source is None else source.run
    return {} if path is None else dataclasses.asdict(saved_config(path, load_checkpoint(path)))["env_kwargs"]
