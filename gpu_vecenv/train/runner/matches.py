"""Matches of a run's roles, trained and at random, which say what the run learned."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_vecenv.train.config import TrainConfig, resolve
from gpu_vecenv.train.policies.function import scripted_of
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config
from gpu_vecenv.train.run_folder.matches import Match, Matches, RoleFacts
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import evaluate
from gpu_vecenv.train.runner.measure import step_limit
from gpu_vecenv.train.storage.policy_map import assign_members, trainable_policies

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

AGENT_STEPS = 1_600_000
"""Most agent steps of a match if all its episodes last to their time limit; an episode without one counts as 1,000 steps."""

LEAST_WORLDS, MOST_WORLDS = 4, 100
"""Bounds on the worlds of a match."""


def play_matches(run: str | Path, device: str = "auto", progress: bool = False) -> Matches:
    """Play the matches of a run: one episode in each of some worlds, which training did not have, with the same starts in each.

    Roles act at random, see ``random_roles()``; and one role at a time by each of its scripted policies, if the env has any.

    Args:
        run: the run's folder, or a checkpoint file.
        device: ``auto``, ``cpu`` or ``cuda:0``.
        progress: show the progress on standard error.

    Raises:
        CheckpointError, UnfinishedError, DeviceError, CompileError, OutOfMemoryError: see ``evaluate()``.
    """
    state = load_checkpoint(run)
    config = resolve(saved_config(run, state))
    with contextlib.closing(make_env(dataclasses.replace(config, device=device), 1)) as env:
        limit = step_limit(env)
        agent_steps = env.num_agents * (limit if limit < math.inf else 1_000)
        learning, policies = roles_that_learn(env, config)
        leaving = {role.name: role.leaving for role in env.env_spec.roles}
        rules = [(each.role, name) for name, each in scripted_of(env).items() if each.role in learning]
        facts = {role: RoleFacts(count, policies[role], leaving[role]) for role, count in env.role_counts.items()}
    worlds = int(min(MOST_WORLDS, max(LEAST_WORLDS, AGENT_STEPS // agent_steps)))
    choices: list[dict[str, str]] = [dict.fromkeys(random, "random") for random in random_roles(learning)]
    choices += [{role: name} for role, name in rules]
    matches = []
    for number, changes in enumerate(choices, start=1):
        task = f"match {number} of {len(choices)}: {match_text(changes, learning)}" if progress else ""
        result = evaluate(run, worlds, changes, progress=progress, task=task, device=device)
        random = [role for role, name in changes.items() if name == "random"]
        scripted = {role: name for role, name in changes.items() if name != "random"}
        matches.append(Match(random, result.mean_return, result.mean_exits, result.mean_metrics, scripted))
    return Matches(worlds, state["iteration"] * config.num_envs * config.num_steps(state["algorithms"]), learning, facts, matches)


def roles_that_learn(env: GpuVectorEnv, config: TrainConfig) -> tuple[list[str], dict[str, list[str]]]:
    """Return the roles with a policy that learns, in the order of the env, and the names of each role's policies."""
    members = assign_members(env.role_counts, config.policy_map, env.layout.groups)
    acting = {name: {each.role for each in spans} for name, spans in members.items()}
    policies = {role: [name for name, roles in acting.items() if role in roles] for role in env.role_counts}
    learn = set(trainable_policies(members, config.frozen, scripted_of(env)))
    return [role for role, names in policies.items() if learn.intersection(names)], policies


def random_roles(learning: Sequence[str]) -> list[tuple[str, ...]]:
    """Return for each match the roles that act at random.

    All roles that learn act as trained, or all at random, or one acts at random, or one as trained. So one role has two matches,
    two roles have four, and more roles have two more than twice their number.
    """
    sizes = sorted({0, 1, len(learning) - 1, len(learning)})
    return [choice for size in sizes for choice in itertools.combinations(learning, size)]


def match_text(changes: Mapping[str, str], learning: Sequence[str]) -> str:
    """Return who plays in a match, such as ``trained tagger, random runner``."""
    return ", ".join(f"{changes.get(role, 'trained')} {role}" for role in learning)
