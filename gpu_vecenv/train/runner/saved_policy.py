"""A policy of a checkpoint, built with the options of its run."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import NamedTuple

import torch

from gpu_vecenv.backend.select import choose_device
from gpu_vecenv.train.config import ResolvedConfig, resolve
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Policy
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
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.rollout import Rollout


class SavedPolicy(NamedTuple):
    """A policy with the weights of a checkpoint."""

    policy: Policy
    """The policy, on the device asked for."""
    name: str
    """Its name in the run."""
    rows: PolicyRows
    """Its rows in an env of one world."""
    config: ResolvedConfig
    """Options of the run."""


def saved_policy(run: str | Path, name: str | None = None, device: str = "cpu", caller: str = "policy") -> SavedPolicy:
    """Return a policy of a checkpoint.

    Args:
        run: a run's folder, of which the newest checkpoint is read, or a checkpoint file.
        name: name of the policy; None takes the run's only one.
        device: ``auto``, ``cpu`` or ``cuda:0``.
        caller: what asks for it, for messages.

    Raises:
        CheckpointError: the checkpoint is unusable.
        ConfigError: the run has no such policy, or several and no name was given.
        DeviceError: there is no such device.
    """
    device = choose_device(device)
    state = load_checkpoint(run, device)
    config = resolve(dataclasses.replace(saved_config(run, state), device=device))
    with checkpoint_in_errors(run), contextlib.closing(make_env(config, 1)) as env:  # for its spaces
        rows = rows_of_policies(env, Rollout.allocate(env, 1, with_final_obs=False), config.policy_map)
    names = [policy for policy in rows if not is_random(policy)]
    if name is None and len(names) == 1:
        name = names[0]
    if name is None or name not in names:
        raise ConfigError(f"{caller}: expected the name of one of the run's policies {names}, got {name!r}")
    policy = make_policies({name: rows[name]}, config, torch.device(device))[name]
    where = f"{checkpoint_path(run)}: policy {name!r}"
    require_same_form(state["policies"].get(name), policy.state_dict(), where)
    policy.load_state_dict(state["policies"][name])
    return SavedPolicy(policy, name, rows[name], config)
