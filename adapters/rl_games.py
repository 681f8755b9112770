"""rl_games: envs of this package as environments of its configurations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space, Tuple
from gymnasium.vector import VectorEnv
from torch import Tensor

from gpu_vecenv import RoleRows
from gpu_vecenv.adapters.checks import action_tensor, checked_env, made_by_id, row_spaces
from gpu_vecenv.errors import MissingExtraError, ParameterError, ShapeError
from gpu_vecenv.vector.env.pickling import Copied

try:
    from rl_games.common import env_configurations, vecenv
    from rl_games.common.ivecenv import IVecEnv
except ImportError as error:
    raise MissingExtraError('this adapter needs rl_games: pip install "gpu-vecenv[rl-games]"') from error

KIND = "GPU_VECENV"
"""Name in rl_games of the kind of env that ``create_env()`` makes."""


class RlGamesEnv(Copied, IVecEnv):
    """A vector env of rl_games whose tensors stay on the env's device.

    A world is an actor of rl_games. Each row is an agent. Rows are ordered by world and then by agent, as rl_games expects.
    Agents of all roles share one policy, because rl_games has only one; with ``RoleRows``, the rows are the agents of one role.
    With several agents in a world, observations are a dict: ``obs`` by row, and ``states`` by world for a central value. An agent
    that left the game gets reward 0 until its world's episode ends.

    Args:
        env: an env made with ``array="torch"``, in the worlds view, or ``RoleRows`` of one.
        seed: seed of the first reset.

    Raises:
        ParameterError: the env is of another kind.
        MissingExtraError: on import, when rl_games is not installed.
    """

    def __init__(self, env: VectorEnv, seed: int | None = None) -> None:
        view = "agents" if isinstance(getattr(env, "unwrapped", None), RoleRows) else "worlds"
        self._inner = checked_env(env, "RlGamesEnv", view)
        self.env = env
        self._seed = seed
        self._agents = self._inner.num_agents
        self._num_rows = self._inner.num_worlds * self._agents
        self._rows_of_env = self._num_rows // self._inner.num_envs
        self.observation_space, action_space = row_spaces(env)
        self.action_space = _without_multi_discrete(action_space)
        self._action_shape = (self._inner.num_envs, *(env.single_action_space.shape or ()))

    def reset(self) -> Tensor | dict[str, Tensor]:
        """Start new episodes in all worlds; return observations, float32 (rows, F), with several agents under ``obs``."""
        obs, _ = self.env.reset(seed=self._seed)
        self._seed = None
        return self._rows(obs)

    def step(self, actions: Tensor) -> tuple[Tensor | dict[str, Tensor], Tensor, Tensor, dict[str, Tensor]]:
        """Make a step.

        Args:
            actions: (rows,), or (rows, k) for a Tuple or a Box.

        Returns:
            obs: as from ``reset()``; first observations of the new episode in rows whose episode ended.
            reward: float32 (rows,).
            done: bool (rows,), the same for all agents of a world.
            infos: ``time_outs``, bool (rows,), True if the time limit alone ended an episode.
        """
        if isinstance(actions, Tensor):
            actions = torch.atleast_1d(actions)  # with one world of one agent, rl_games' player passes no axes
        tensor = action_tensor(actions, self._num_rows, self._inner.device)
        if tensor.numel() != math.prod(self._action_shape):
            raise ShapeError(f"actions must have {math.prod(self._action_shape)} entries, got the shape {tuple(tensor.shape)}.")
        obs, reward, terminated, truncated, info = self.env.step(tensor.reshape(self._action_shape))
        if self._rows_of_env > 1:
            reward = info["agent_reward"].flatten()
        flags = (terminated | truncated, truncated & ~terminated)
        done, time_outs = (flag.repeat_interleave(self._rows_of_env) for flag in flags)
        return self._rows(obs), reward, done, {"time_outs": time_outs}

    def get_number_of_agents(self) -> int:
        """Return the number of agents in a world."""
        return self._agents

    def get_env_info(self) -> dict[str, Any]:
        """Return the spaces of a row and of a world's state, the agents in a world, and the autoreset mode."""
        space = self.observation_space
        low, high = (np.tile(np.ravel(bound), self._agents) for bound in (space.low, space.high))
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "state_space": Box(low, high, dtype=np.float32),
            "agents": self._agents,
            "value_size": 1,
            "autoreset_mode": "same_step",
        }

    def render(self, mode: str = "human") -> Any:
        """Return the env's frames for any ``mode``; None without ``render_mode``."""
        return self.env.render()

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def _rows(self, obs: Tensor) -> Tensor | dict[str, Tensor]:
        if self._agents == 1:
            return obs
        return {
            "obs": obs.reshape(self._num_rows, *self.observation_space.shape),
            "states": obs.reshape(self._inner.num_worlds, -1),
        }


def create_env(env_id: str, num_actors: int = 1, seed: int | None = None, **options: Any) -> RlGamesEnv:
    """Make an env for rl_games.

    Args:
        env_id: an id of this package.
        num_actors: worlds.
        seed: seed of the first reset.
        options: further keywords of ``gymnasium.make_vec``: ``device`` and the env's own.

    Raises:
        ParameterError: the id makes an env of another kind, or an option is one that this function sets, such as ``array``.
    """
    fixed = {"num_worlds": num_actors, "view": "worlds", "array": "torch"}
    return RlGamesEnv(made_by_id(env_id, "create_env()", fixed, options), seed)


def register(env_id: str) -> None:
    """Register ``env_id`` as an ``env_name`` of rl_games' configurations; ``env_config`` holds keywords of ``create_env()``.

    Raises:
        ParameterError: no id.
    """
    if not isinstance(env_id, str):
        raise ParameterError(f"register() takes an id of an env of this package, got {type(env_id).__name__}.")
    vecenv.register(KIND, create_env)
    creator = {"vecenv_type": KIND, "env_creator": lambda **options: create_env(env_id, **options)}
    env_configurations.register(env_id, creator)


def _without_multi_discrete(space: Space) -> Space:
    """Return a MultiDiscrete as a Tuple of Discrete, rl_games' space of actions with several entries; others unchanged."""
    return Tuple([Discrete(int(n)) for n in space.nvec]) if isinstance(space, MultiDiscrete) else space
