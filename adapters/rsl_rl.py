"""rsl_rl: envs of this package with continuous actions as its ``VecEnv``."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from torch import Tensor

from gpu_vecenv.adapters.checks import checked_env, require_fresh
from gpu_vecenv.errors import MissingExtraError, ParameterError

try:
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict
except ImportError as error:
    raise MissingExtraError('this adapter needs rsl_rl: pip install "gpu-vecenv[rsl-rl]"') from error


class RslRlEnv(VecEnv):
    """rsl_rl's ``VecEnv`` whose tensors stay on the env's device; an env is a row, with several agents an agent's.

    Observations are a ``TensorDict`` with one group, ``policy``. Episodes start anew in the step that ends them.

    Args:
        env: with continuous actions and a time limit, made with ``array="torch"`` and, where worlds have several agents,
            ``view="agents"``.
        seed: of the first episodes.
        cfg: what rsl_rl's loggers should record of the env.

    Attributes:
        num_envs: rows.
        num_actions: numbers that make up an action.
        max_episode_length: the time limit, steps.
        device: the env's.

    Raises:
        ParameterError: what does not fit; in the first step also an env made with ``copy=False``.
        MissingExtraError: on import, when rsl_rl is not installed.
    """

    def __init__(self, env: VectorEnv, seed: int | None = None, cfg: dict[str, Any] | None = None) -> None:
        self._inner = checked_env(env, "RslRlEnv", "agents")
        space, params = self._inner.single_action_space, self._inner.params
        if not isinstance(space, Box):
            raise ParameterError(f"rsl_rl's policies act continuously, so the action space must be a Box, got {space}.")
        self.env = env
        self.cfg = cfg or {}
        self.device = self._inner.device
        self.num_envs = self._inner.num_envs
        self.num_actions = space.shape[0]
        self.max_episode_length = int(params["max_episode_steps" if "max_episode_steps" in params else "episode_length"])
        if self.max_episode_length == 0:
            raise ParameterError("rsl_rl wants episodes of limited length; give max_episode_steps, got 0, which is none.")
        self._obs, _ = env.reset(seed=seed)

    def get_observations(self) -> TensorDict:
        """The present observations: ``policy``, float32 (num_envs, F)."""
        return TensorDict({"policy": self._obs}, batch_size=[self.num_envs], device=self.device)

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Make a step.

        Args:
            actions: float32 (num_envs, num_actions); the env clips them to its bounds.

        Returns:
            observations: the first of the new episode where one ended.
            rewards: float32 (num_envs,).
            dones: bool (num_envs,).
            extras: ``time_outs``, bool (num_envs,), where the time limit and nothing else ended an episode.
        """
        obs, reward, terminated, truncated, _ = self.env.step(actions)
        require_fresh(obs, self._obs, "rsl_rl")
        self._obs = obs
        return self.get_observations(), reward, terminated | truncated, {"time_outs": truncated & ~terminated}

    @property
    def episode_length_buf(self) -> Tensor:
        """Steps taken in the present episode, int32 (num_envs,).

        What is assigned moves the worlds' clocks, of any integer dtype; with several agents, that of the first agent's row
        does. Observations that tell the time change with it.
        """
        steps = self._inner.get_state()["t"]
        return torch.cat([steps.repeat_interleave(count) for count in self._inner.role_counts.values()])

    @episode_length_buf.setter
    def episode_length_buf(self, steps: Tensor) -> None:
        role, rows = next(iter(self._inner.role_rows.items()))
        first = steps[rows][:: self._inner.role_counts[role]]
        self._inner.set_state({"t": first.to(self.device, torch.int32)})
        self._obs = self._inner.observe()

    def close(self) -> None:
        """Close the env."""
        self.env.close()
