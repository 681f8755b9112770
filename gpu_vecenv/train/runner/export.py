"""Exports a policy of a run or of a checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import torch

from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Policy
from gpu_vecenv.train.policies.export import write_policy
from gpu_vecenv.train.run_folder.checkpoint import (
    checkpoint_in_errors,
    checkpoint_path,
    load_checkpoint,
    require_same_form,
    saved_config,
)
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.run_state import make_policies, rows_of_policies
from gpu_vecenv.train.storage.policy_map import is_random
from gpu_vecenv.train.storage.rollout import Rollout


def export_policy(source: Policy | str | Path, path: str | Path, policy: str | None = None) -> Path:
    """Write a policy for use without this package; ``write_policy()`` describes the file.

    Args:
        source: a policy, a run's folder or a checkpoint file.
        path: file to write, which ends with ``.pt2`` or ``.onnx``.
        policy: name of the policy in the run; None takes its only one.

    Returns:
        The path.

    Raises:
        CheckpointError: the checkpoint is unusable.
        ConfigError: the run has no such policy, or several and no name was given, or the file or the policy is not supported.
        MissingExtraError: a library that the format needs is missing.
        OSError: the file cannot be written.
    """
    return write_policy(source if isinstance(source, Policy) else _saved_policy(source, policy), path)


def _saved_policy(run: str | Path, name: str | None) -> Policy:
    """Return a policy of a checkpoint, on the CPU."""
    state = load_checkpoint(run)
    config = resolve(dataclasses.replace(saved_config(run, state), device="cpu"))
    with checkpoint_in_errors(run), contextlib.closing(make_env(config, 1)) as env:  # for its spaces
        rows = rows_of_policies(env, Rollout.allocate(env, 1, with_final_obs=False), config.policy_map)
    names = [policy for policy in rows if not is_random(policy)]
    if name is None and len(names) == 1:
        name = names[0]
    if name is None or name not in names:
        raise ConfigError(f"export: expected the name of one of the run's policies {names}, got {name!r}")
    policy = make_policies({name: rows[name]}, config, torch.device("cpu"))[name]
    where = f"{checkpoint_path(run)}: policy {name!r}"
    require_same_form(state["policies"].get(name), policy.state_dict(), where)
    policy.load_state_dict(state["policies"][name])
    return policy
