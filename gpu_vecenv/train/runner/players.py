"""Policies that act in all rows of an env, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpu_vecenv.train.config import ResolvedConfig
from gpu_vecenv.train.policies.contract import Actor, Policy
from gpu_vecenv.train.policies.function import Function, fixed_policies, scripted_of
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_in_errors
from gpu_vecenv.train.runner.build import load_policy
from gpu_vecenv.train.runner.collector import Collector, whole_rollout
from gpu_vecenv.train.runner.run_state import make_policies, require_policies, rows_of_policies
from gpu_vecenv.train.runner.wrappers import evaluate_as_saved
from gpu_vecenv.train.storage.policy_map import Members, is_random, with_changes
from gpu_vecenv.train.storage.policy_rows import policy_rows
from gpu_vecenv.train.storage.rollout import Rollout

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


class Players:
    """An actor for every row of an env, and the results of a piece of their episodes.

    Attributes:
        acting: what acts for each policy, by name.
        rows: rows of each policy, by name.
    """

    def __init__(
        self,
        env: GpuVectorEnv,
        policy_map: Mapping[str, str] | None,
        policies: Mapping[str, Policy],
        num_steps: int = 1,
        actors: Mapping[str, Actor] | None = None,
        functions: Mapping[str, Function] | None = None,
    ):
        """Bind the env.

        Args:
            env: vector env, see ``make_env()``.
            policy_map: role to policy name; None gives each role the policy of its name.
            policies: policies by name, on the env's device; scripted ones and functions are made for this env.
            num_steps: steps of a piece.
            actors: what acts for each policy, by name; None: the policies themselves.
            functions: policy name to the function that acts as this policy.

        Raises:
            PolicyMapError: a role is unknown or has no policy.
        """
        rollout = Rollout.allocate(env, num_steps, with_final_obs=False)
        rows = rows_of_policies(env, rollout, policy_map)
        fixed = fixed_policies(env, rows, functions)
        policies = {**policies, **fixed}
        self.acting = acting = {name: ({**actors, **fixed} if actors else policies)[name] for name in rows}
        self.rows = rows
        for name, rows_of_policy in rows.items():
            rows_of_policy.keep_states(policies[name].state_shape)
        self.collector = Collector(env, rollout, acting, rows, whole_rollout(env, rollout, acting, rows))
        everyone = {role: [Members(role, 0, count)] for role, count in env.role_counts.items()}
        self.roles = policy_rows(rollout, env.layout.groups, dict(env.role_rows), env.num_worlds, everyone)

    @classmethod
    def loaded(
        cls,
        env: GpuVectorEnv,
        config: ResolvedConfig,
        checkpoint: str | Path | None,
        policy_map: Mapping[str, str] | None,
        all_loaded: bool,
        num_steps: int = 1,
        functions: Mapping[str, Function] | None = None,
    ) -> Players:
        """Build policies for an env, with the weights of checkpoints.

        Args:
            env: vector env, see ``make_env()``.
            config: resolved options; its ``load_policies`` names the files of some policies.
            checkpoint: file that holds every other policy but ``random``; None keeps the initial weights.
            policy_map: role to policy name, for roles with another policy than in ``config``.
            all_loaded: each policy of ``load_policies`` must act; otherwise ``policy_map`` may have replaced it.
            num_steps: steps of a piece.
            functions: policy name to the function that acts as this policy.

        Raises:
            CheckpointError: a file does not fit, or a policy of it was a function and is none here.
            ConfigError: ``load_policies`` names another policy.
            PolicyMapError: a role is unknown or has no policy.
        """
        trained = {role: role for role in env.role_rows} if config.policy_map is None else config.policy_map
        rollout = Rollout.allocate(env, 1, with_final_obs=False)
        if checkpoint is not None:
            with checkpoint_in_errors(checkpoint):  # an error in this block is caused by the checkpoint
                rows_of_policies(env, rollout, trained)
        present = with_changes(trained, policy_map or {})
        rows = rows_of_policies(env, rollout, present)
        fixed = fixed_policies(env, rows, functions)
        with checkpoint_in_errors(checkpoint):
            policies = make_policies(rows, config, torch.device(env.device), fixed=fixed)
        evaluate_as_saved(env, checkpoint)
        require_policies("load_policies", config.load_policies, [*policies, *([] if all_loaded else trained.values())])
        for name in policies:
            file = config.load_policies.get(name, checkpoint)
            if file is not None and not is_random(name) and name not in fixed:
                load_policy(policies, name, file, acts_only=True, scripted=[*scripted_of(env)])
        return cls(env, present, policies, num_steps, functions=functions)

    def step(self, deterministic: bool) -> Rollout:
        """Advance the env by the steps of a piece; return the results, which the next call overwrites."""
        self.collector.collect(deterministic)
        return self.collector.rollout

    def valid(self) -> Tensor:
        """Return which transitions of the last piece count, bool (T, R), as in training."""
        return torch.cat([rows.masks().valid.flatten(1) for rows in self.roles.values()], dim=1)
