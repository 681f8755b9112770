"""Checks of the env and of actions that several adapters share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gpu_vecenv import EpisodeStatistics, GpuVectorEnv, RoleRows
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.given import host_array
from gpu_vecenv.spec.roles import Group


def checked_env(env: VectorEnv, adapter: str, view: str) -> GpuVectorEnv | RoleRows:
    """Return the env of this package inside ``env``: with torch tensors, same-step resets and, with several agents, ``view``.

    Raises:
        ParameterError: the env is of another kind, or its arrays are by role; the text names the ``adapter``.
    """
    inner = env.unwrapped
    if not isinstance(inner, GpuVectorEnv | RoleRows):
        raise ParameterError(f"{adapter} takes an env of this package, got {type(inner).__name__}.")
    if isinstance(inner, GpuVectorEnv) and inner.env_spec.by_role:
        roles = " and ".join(inner.role_counts)
        raise ParameterError(
            f"{adapter} needs the same spaces for all agents, and {roles} have their own; RoleRows(env, role, others={{...}}) "
            "makes the rows of one role an env."
        )
    for name, value, wanted in (
        ("array", inner.array, "torch"),
        ("view", inner.view, view if inner.num_agents > 1 else inner.view),
        ("autoreset_mode", inner.autoreset_mode, AutoresetMode.SAME_STEP),
    ):
        if value != wanted:
            raise ParameterError(f"{adapter} needs an env with {name}={wanted!r}, got {value!r}.")
    return inner


def row_group(env: GpuVectorEnv | RoleRows) -> Group:
    """Return the group of agents that the rows of an env are."""
    return env.group if isinstance(env, RoleRows) else env.layout.groups[0]


def row_spaces(env: VectorEnv) -> tuple[Any, Space]:
    """Return the observation and the action space of one agent, as the wrappers around an env of this package leave them.

    An action space without bounds, as ``ClipAction`` leaves it, is that of the env: libraries draw and scale actions by bounds.

    Raises:
        ParameterError: an env is a world of several agents, and a wrapper gives it a space that is not one of equal agents.
    """
    inner: Any = env.unwrapped
    observation, action = env.single_observation_space, env.single_action_space
    if isinstance(action, Box) and not action.is_bounded() and action.shape == inner.single_action_space.shape:
        action = inner.single_action_space
    if inner.view == "agents" or inner.num_agents == 1:
        return observation, action
    return _of_one_agent(observation, inner.num_agents), _of_one_agent(action, inner.num_agents)


def _of_one_agent(space: Space, agents: int) -> Space:
    """Return the space of one agent from that of all agents of a world, whose first axis is agents."""
    rows = np.array([space.low, space.high]) if isinstance(space, Box) else np.array([getattr(space, "nvec", [])])
    if rows.shape[1:2] != (agents,) or (rows != rows[:, :1]).any():
        raise ParameterError(f"the space of a world must have {agents} equal agents along its first axis, got {space}.")
    if isinstance(space, Box):
        return Box(rows[0, 0], rows[1, 0], dtype=space.dtype)
    return MultiDiscrete(rows[0, 0]) if rows.ndim > 2 else Discrete(int(rows[0, 0]))


def has_statistics(env: VectorEnv) -> bool:
    """Return True if an env or one of the envs in its wrappers is ``EpisodeStatistics``."""
    while isinstance(env, VectorWrapper):
        if isinstance(env, EpisodeStatistics):
            return True
        env = env.env
    return False


def require_fresh(obs: torch.Tensor, previous: torch.Tensor | None, library: str) -> None:
    """Refuse an env made with ``copy=False``, for a library that reads an observation after the next step.

    Raises:
        ParameterError: ``obs`` and ``previous``, the observations of two consecutive steps, have the same memory.
    """
    if previous is not None and obs.data_ptr() == previous.data_ptr():
        raise ParameterError(f"{library} reads observations after the next step: expected an env with copy=True, got copy=False.")


def action_tensor(actions: Any, rows: int, device: str | torch.device, where: str = "actions") -> torch.Tensor:
    """Return actions, arrays of any kind or nested lists, as a tensor on a device; ``where`` names them in errors.

    Raises:
        ShapeError: ``actions`` is a ragged list, or its first axis is not ``rows``.
        ArrayTypeError: ``actions`` does not consist of numbers.
    """
    if not isinstance(actions, torch.Tensor):
        try:
            actions = np.asarray(host_array(actions, where))
        except ValueError as error:
            raise ShapeError(f"{where} must have {rows} rows, got a ragged list.") from error
        if actions.dtype.kind not in "iuf":
            raise ArrayTypeError(f"{where} must be numbers, got {actions.dtype}.")
    if tuple(actions.shape[:1]) != (rows,):
        raise ShapeError(f"{where} must have {rows} rows, got the shape {tuple(actions.shape)}.")
    return torch.as_tensor(actions, device=device)
