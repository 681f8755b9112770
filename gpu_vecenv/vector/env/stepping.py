"""Steps of an env with recorded actions, and their results on the host, by world in every view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from gpu_vecenv.errors import ActionError, ArrayTypeError, ParameterError, RecordingError, ShapeError
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.vector.env.recording import Part

OPTIONS = {"view": "worlds", "array": "numpy", "copy": True}
"""Options of envs that recorded steps are made with."""


class StepResult(NamedTuple):
    """Results of a step; N worlds of A agents."""

    reward: np.ndarray
    """float32 (N, A), of each agent."""
    ended: np.ndarray
    """bool (N,), the episode ended."""
    alive: np.ndarray
    """bool (N, A), in the game after the step, before a reset."""
    metrics: np.ndarray
    """float32 (M, N), valid where the episode ended."""
    outputs: dict[str, np.ndarray]
    """Every array of the step by its name, such as ``obs/tagger``."""


def started(env: Any, part: Part) -> np.ndarray:
    """Start an env as a part of a recording does.

    Args:
        env: a ``GpuVectorEnv`` with ``OPTIONS``.
        part: the part.

    Returns:
        bool (N, A), agents in the game before the first step.

    Raises:
        RecordingError: the state is not that of the env.
    """
    env.reset(seed=0 if part.seed is None else part.seed)
    if part.state:
        fields = [field.name for field in env.layout.state]
        if sorted(part.state) != sorted(fields):
            raise RecordingError(f"expected the state fields {', '.join(fields)}, got {', '.join(part.state)}")
        try:
            env.set_state({name: np.asarray(values) for name, values in part.state.items() if name != "pool_entry"})
        except (ParameterError, ShapeError, ArrayTypeError) as error:
            raise RecordingError(f"expected a state of the env, got {error}") from error
    return _alive(env)


def steps(env: Any, actions: Mapping[str, np.ndarray]) -> Iterator[StepResult]:
    """Make the recorded steps.

    Args:
        env: the env, after ``started()``.
        actions: actions of a ``Part``.

    Raises:
        RecordingError: the actions are not those of the env.
    """
    groups = {group.role if env.layout.by_role else "": group for group in env.layout.groups}
    if list(actions) != list(groups):
        raise RecordingError(f"expected actions of {list(groups)}, got {list(actions)}")
    for step in range(len(next(iter(actions.values())))):
        present = {role: _env_actions(values[step], groups[role], env) for role, values in actions.items()}
        try:
            results = env.step(present if env.layout.by_role else present[""])
        except (ShapeError, ArrayTypeError, ActionError) as error:
            raise RecordingError(f"expected actions of the env in step {step}, got {error}") from error
        yield _result(env, results)


def _env_actions(values: np.ndarray, group: Group, env: Any) -> np.ndarray:
    """Return actions of a step as the env takes them: one agent without roles has no axis of agents."""
    return values[:, 0] if not env.layout.by_role and env.num_agents == 1 and values.shape[1:2] == (1,) else values


def _result(env: Any, results: tuple[Any, ...]) -> StepResult:
    obs, reward, terminated, truncated, info = results
    agent_reward = info.get("agent_reward", reward.reshape(env.num_worlds, -1))
    alive = info.get("agent_alive", np.ones(agent_reward.shape, bool))
    metrics = [info["episode"][metric.name] for metric in env.env_spec.metrics]
    shown = {"obs": obs, "final_obs": info.get("final_obs"), "agent_reward": agent_reward, "terminated": terminated,
             "truncated": truncated}  # fmt: skip
    outputs = {name: values for name, tree in shown.items() if tree is not None for name, values in named(name, tree)}
    stacked = np.stack(metrics) if metrics else np.zeros((0, env.num_worlds), np.float32)
    return StepResult(agent_reward, terminated | truncated, alive, stacked, outputs)


def _alive(env: Any) -> np.ndarray:
    name = env.env_spec.alive
    return np.ones((env.num_worlds, env.num_agents), bool) if name is None else env.get_state(name)[name] != 0


def named(name: str, tree: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays of nested dicts, each with its path, such as ``obs/tagger``."""
    if isinstance(tree, Mapping):
        for key, part in tree.items():
            yield from named(f"{name}/{key}", part)
    else:
        yield name, tree


def by_world(rows: Any, role_counts: Mapping[str, int], num_worlds: int) -> Any:
    """Return values of rows, ``(..., R)``, by world, ``(..., N, A)``: rows are ordered by role, then world, then agent."""
    parts, first = [], 0
    for count in role_counts.values():
        part = rows[..., first : first + num_worlds * count]
        parts.append(np.asarray(part).reshape(*rows.shape[:-1], num_worlds, count))
        first += num_worlds * count
    return np.concatenate(parts, axis=-1)
