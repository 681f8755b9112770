"""Checks of the env and of actions that several adapters share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode, VectorEnv

from gpu_vecenv import GpuVectorEnv, RoleRows
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.given import Array, host_array
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.vector.whole import whole_space


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


def row_spaces(env: GpuVectorEnv | RoleRows) -> tuple[Box, Space]:
    """Return the observation and the action space of one agent."""
    return whole_space(row_group(env)), row_group(env).action


def require_fresh(obs: Array, previous: Array, library: str) -> None:
    """Refuse an env made with ``copy=False``, for a library that reads an observation after the next step.

    Raises:
        ParameterError: ``obs`` and ``previous``, the observations of two consecutive steps, are the same array.
    """
    if obs is previous:
        raise ParameterError(f"{library} reads observations after the next step: expected an env with copy=True, got copy=False.")


def action_tensor(actions: Any, rows: int, device: str | torch.device) -> torch.Tensor:
    """Return actions, arrays of any kind or nested lists, as a tensor on a device.

    Raises:
        ShapeError: ``actions`` is a ragged list, or its first axis is not ``rows``.
        ArrayTypeError: ``actions`` does not consist of numbers.
    """
    if not isinstance(actions, torch.Tensor):
        try:
            actions = np.asarray(host_array(actions, "actions"))
        except ValueError as error:
            raise ShapeError(f"actions must have {rows} rows, got a ragged list.") from error
        if actions.dtype.kind not in "iuf":
            raise ArrayTypeError(f"actions must be numbers, got {actions.dtype}.")
    if tuple(actions.shape[:1]) != (rows,):
        raise ShapeError(f"actions must have {rows} rows, got the shape {tuple(actions.shape)}.")
    return torch.as_tensor(actions, device=device)
