"""Checks of the env and of actions that several adapters share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec, find_highest_version, get_env_id, load_env_creator, parse_env_id
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gpu_vecenv import EpisodeStatistics, GpuVectorEnv, RoleRows
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError, UnknownIdError
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.spec.validation import abbreviated, host_array
from gpu_vecenv.vector.inputs.autoreset import spelled
from gpu_vecenv.vector.inputs.options import refuse_fixed


def made_by_id(env_id: Any, adapter: str, fixed: Mapping[str, Any], options: Mapping[str, Any]) -> VectorEnv:
    """Make a vector env of this package by its id.

    Args:
        env_id: the id, or Gymnasium's ``EnvSpec``.
        adapter: name of the adapter, for errors.
        fixed: keywords of ``gymnasium.make_vec`` that the adapter needs.
        options: keywords of the caller.

    Raises:
        ParameterError: no id, an id that makes an env of another package, or an option that the adapter sets itself.
        UnknownIdError: an id that is not registered.
    """
    if not isinstance(env_id, str | EnvSpec):
        raise ParameterError(f"{adapter} takes an id of an env of this package, got {type(env_id).__name__}.")
    refuse_fixed(adapter, options, fixed)
    registered = _registered(env_id, adapter) if isinstance(env_id, str) else env_id
    if _is_foreign(registered):
        raise ParameterError(f"{adapter} takes an id of an env of this package, got {registered.id!r}.")
    return gymnasium.make_vec(env_id, **fixed, **options)


def without_wrappers(env: VectorEnv, env_id: Any, adapter: str, instead: str) -> GpuVectorEnv:
    """Return an env that an id made, for an adapter that steps the env itself, so that wrappers would have no effect.

    Args:
        env: the env, which is closed if it is refused.
        env_id: its id, for errors.
        adapter: name of the adapter, for errors.
        instead: what does the work of wrappers, for errors.

    Raises:
        ParameterError: the env is of another kind, or has wrappers.
    """
    if isinstance(env, GpuVectorEnv):
        return env
    env.close()
    if isinstance(env, VectorWrapper):
        wrapper = type(env).__name__
        raise ParameterError(f"{adapter} takes an env without wrappers, and {env_id!r} makes one in {wrapper}; use {instead}.")
    raise ParameterError(f"{adapter} takes an id of an env of this package, got {env_id!r}.")


def _registered(env_id: str, adapter: str) -> EnvSpec:
    """Return what is registered with an id.

    Raises:
        UnknownIdError: nothing is.
    """
    try:
        module, _, name = env_id.rpartition(":")
        if module:
            import_module(module)
        namespace, base, version = parse_env_id(name)
        newest = find_highest_version(namespace, base) if version is None else version
        return gymnasium.envs.registration.spec(get_env_id(namespace, base, newest))
    except (ImportError, ValueError, gymnasium.error.Error) as error:
        raise UnknownIdError(f"{adapter} takes an id of an env of this package, got {abbreviated(env_id)}: {error}") from error


def _is_foreign(registered: EnvSpec) -> bool:
    """Return True if an id makes single envs alone, or vector envs of a class of another package."""
    entry: Any = registered.vector_entry_point
    if isinstance(entry, str):
        entry = load_env_creator(entry)
    while isinstance(entry, partial):
        entry = entry.func
    return entry is None or (isinstance(entry, type) and not issubclass(entry, GpuVectorEnv | VectorWrapper))


def checked_env(env: VectorEnv | str, adapter: str, view: str) -> GpuVectorEnv | RoleRows:
    """Return the env of this package inside ``env``: with torch tensors, same-step resets and, with several agents, ``view``.

    Raises:
        ParameterError: the env is of another kind, or its arrays are by role; the text names the ``adapter``.
    """
    if isinstance(env, str):
        call = f"gymnasium.make_vec({abbreviated(env)})"
        raise ParameterError(f"{adapter} takes an env of this package, got {abbreviated(env)}; make one with {call}.")
    inner = getattr(env, "unwrapped", env)
    if not isinstance(inner, GpuVectorEnv | RoleRows):
        raise ParameterError(f"{adapter} takes an env of this package, got {type(inner).__name__}.")
    if isinstance(inner, GpuVectorEnv) and inner.layout.by_role:
        roles = " and ".join(inner.role_counts)
        raise ParameterError(
            f"{adapter} needs the same spaces for all agents, and {roles} have their own; RoleRows(env, role, others={{...}}) "
            "makes the rows of one role an env."
        )
    for name, value, expected in (
        ("array", inner.array, "torch"),
        ("view", inner.view, view if inner.num_agents > 1 else inner.view),
        ("autoreset_mode", inner.autoreset_mode, AutoresetMode.SAME_STEP),
    ):
        if value != expected:
            raise ParameterError(f"{adapter} needs an env with {name}={spelled(expected)!r}, got {spelled(value)!r}.")
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


def row_actions(actions: Any, shape: tuple[int, ...], device: str | torch.device) -> torch.Tensor:
    """Return actions as a tensor of a shape, on a device; a last axis of 1 may follow that shape.

    Raises:
        ShapeError: ``actions`` is a ragged list, or has another shape.
        ArrayTypeError: ``actions`` does not consist of numbers.
    """
    tensor = action_tensor(actions, shape[0], device)
    if tuple(tensor.shape) not in (shape, (*shape, 1)):
        raise ShapeError(f"actions must have the shape {shape} or {(*shape, 1)}, got {tuple(tensor.shape)}.")
    return tensor.reshape(shape)


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
