"""rsl_rl: envs of this package with continuous actions as its ``VecEnv``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from gymnasium.spaces import Box
from gymnasium.vector import VectorActionWrapper, VectorEnv, VectorObservationWrapper, VectorRewardWrapper, VectorWrapper
from torch import Tensor

from gpu_vecenv import (
    ClipAction,
    ClipReward,
    EpisodeStatistics,
    NormalizeObservation,
    NormalizeReward,
    TransformObservation,
    TransformReward,
)
from gpu_vecenv.adapters.checks import checked_env, require_fresh
from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, ShapeError
from gpu_vecenv.spec.params import step_limit
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.vector.env.pickling import Copied

try:
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict
except ImportError as error:
    raise MissingExtraError('this adapter needs rsl_rl: pip install "gpu-vecenv[rsl-rl]"') from error


KEEPS_OBSERVATIONS = (
    *(ClipAction, ClipReward, EpisodeStatistics, NormalizeReward, TransformReward),
    *(VectorActionWrapper, VectorRewardWrapper),
)
"""Wrappers that leave observations as they are."""


class RslRlEnv(Copied, VecEnv):
    """rsl_rl's ``VecEnv`` whose tensors stay on the env's device; each of its envs is a row, that is one agent.

    Observations are a ``TensorDict`` with one group, ``policy``. A step that ends an episode also starts the next one.

    Args:
        env: an env with continuous actions and a time limit, made with ``array="torch"`` and, if worlds have several agents,
            ``view="agents"``; or ``RoleRows`` of a role with continuous actions.
        seed: seed of the first episodes.
        cfg: settings of the env that rsl_rl's loggers record.

    Attributes:
        num_envs: rows.
        num_actions: entries of an action.
        max_episode_length: the time limit in steps, the longest of all worlds.
        device: the env's device.

    Raises:
        ParameterError: the env is of another kind; in the first step also if it was made with ``copy=False``.
        MissingExtraError: on import, when rsl_rl is not installed.
    """

    def __init__(self, env: VectorEnv, seed: int | None = None, cfg: dict[str, Any] | None = None) -> None:
        self._inner = checked_env(env, "RslRlEnv", "agents")
        space = env.single_action_space
        if not isinstance(space, Box):
            raise ParameterError(f"rsl_rl's policies have continuous actions, so the action space must be a Box, got {space}.")
        self.env = env
        self.cfg = cfg or {}
        self.device = self._inner.device
        self.num_envs = self._inner.num_envs
        self.num_actions = space.shape[0]
        self.max_episode_length = step_limit(self._inner.params)
        if self.max_episode_length == 0:
            raise ParameterError("rsl_rl needs a time limit, so max_episode_steps must be at least 1, got 0, which is no limit.")
        self._obs, _ = env.reset(seed=seed)

    def get_observations(self) -> TensorDict:
        """Return the current observations: ``policy``, float32 (num_envs, F)."""
        return TensorDict({"policy": self._obs}, batch_size=[self.num_envs], device=self.device)

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Make a step.

        Args:
            actions: float32 (num_envs, num_actions); the env clips them to its bounds.

        Returns:
            observations: first observations of the new episode in rows whose episode ended.
            rewards: float32 (num_envs,).
            dones: bool (num_envs,).
            extras: ``time_outs``, bool (num_envs,), True if the time limit alone ended an episode.
        """
        obs, reward, terminated, truncated, _ = self.env.step(actions)
        require_fresh(obs, self._obs, "rsl_rl")
        self._obs = obs
        return self.get_observations(), reward, terminated | truncated, {"time_outs": truncated & ~terminated}

    @property
    def episode_length_buf(self) -> Tensor:
        """Steps taken in the current episode, int32 (num_envs,).

        Assigning an array of any integer dtype sets the time of the worlds. With several agents, the entry of a world's first row
        counts. Observations that hold the time change with it.

        Raises:
            ArrayTypeError, ShapeError: no integer tensor with an entry for each row.
            ParameterError: the env has a wrapper of another kind than those of this package and Gymnasium's base classes for
                actions, rewards and observations, which may change observations.
        """
        steps = self._inner.get_state()["t"]
        return torch.cat([steps.repeat_interleave(count) for count in self._inner.role_counts.values()])

    @episode_length_buf.setter
    def episode_length_buf(self, steps: Tensor) -> None:
        if not isinstance(steps, Tensor) or steps.is_floating_point() or steps.is_complex() or steps.dtype is torch.bool:
            got = getattr(steps, "dtype", abbreviated(steps))
            raise ArrayTypeError(f"episode_length_buf must be a tensor of integers, got {got}.")
        if tuple(steps.shape) != (self.num_envs,):
            raise ShapeError(f"episode_length_buf must have the shape {(self.num_envs,)}, got {tuple(steps.shape)}.")
        role, rows = next(iter(self._inner.role_rows.items()))
        first = steps[rows][:: self._inner.role_counts[role]]
        functions = _observation_functions(self.env)
        self._inner.set_state({"t": first.to(self.device, torch.int32)})
        self._obs = self._inner.observe()
        for function in functions:
            self._obs = function(self._obs)

    def close(self) -> None:
        """Close the env."""
        self.env.close()


def _observation_functions(env: VectorEnv) -> list[Callable[[Tensor], Tensor]]:
    """Return the functions that the wrappers around an env apply to observations, that of the innermost wrapper first."""
    functions: list[Callable[[Tensor], Tensor]] = []
    while isinstance(env, VectorWrapper):
        if isinstance(env, TransformObservation):
            functions.insert(0, env.func)
        elif isinstance(env, NormalizeObservation):
            functions.insert(0, env._normal)
        elif isinstance(env, VectorObservationWrapper):
            functions.insert(0, env.observations)
        elif not isinstance(env, KEEPS_OBSERVATIONS):
            raise ParameterError(f"episode_length_buf cannot be set: {type(env).__name__} may change observations.")
        env = env.env
    return functions
