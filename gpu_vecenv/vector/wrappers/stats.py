"""Episode statistics, computed on the device, with the keys of Gymnasium's ``RecordEpisodeStatistics``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gpu_vecenv.spec.validation import Array, ArrayT
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.wrappers.wrapper import DeviceWrapper, Running


class EpisodeStatistics(DeviceWrapper[ArrayT]):
    """Adds ``r`` (return, float32 ``(num_envs,)``) and ``l`` (length in steps, int32) to ``info["episode"]``.

    If the arrays of the env are by role, ``role_r`` is a dict with the return of each role, the mean over its agents. Metrics of
    the env stay in ``info["episode"]``.

    The arrays have the array kind and the device of the env. They are valid where ``info["_episode"]`` (bool) is true: in the
    step that ends an episode. No array is copied to the host.

    Raises:
        ParameterError: the wrapped env is not one of this package.
    """

    def __init__(self, env: VectorEnv[ArrayT, Any, Any]) -> None:
        super().__init__(env)
        inner = env.unwrapped
        self._returns, self._lengths = self._zeros(self.num_envs, dtype="float32"), self._zeros(self.num_envs, dtype="int32")
        self._zero = self._zeros(dtype="float32")  # where() with it, because NaN and infinity times 0 are NaN
        self._roles: dict[str, slice] = {}
        if isinstance(inner, GpuVectorEnv) and inner.layout.by_role:
            self._roles = _agents_of_roles(inner.role_counts)
        self._role_returns: dict[str, Array] = {role: self._returns for role in self._roles}
        self._running = Running("EpisodeStatistics", self._memory, self.num_envs, self._mode)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[ArrayT, dict[str, Any]]:
        """Reset the env and the statistics of the envs that were reset."""
        obs, info = self.env.reset(seed=seed, options=options)
        continued, where = ~self._running.reset(options), self._library.where
        with self._memory.here():
            self._returns, self._lengths = where(continued, self._returns, self._zero), self._lengths * continued
            self._role_returns = {role: where(continued, returns, self._zero) for role, returns in self._role_returns.items()}
        return obs, info

    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Step the env and add the statistics of episodes that end in this step."""
        self._running.require_started()
        obs, reward, terminated, truncated, info = self.env.step(actions)
        where, zero = self._library.where, self._zero
        with self._memory.here():
            going, over = self._running.step(terminated, truncated)
            over = info.get("_episode", over)  # an env with metrics says where it wrote them
            unfinished = ~over
            returns = self._returns + where(going, reward, zero)
            lengths = self._lengths + going
            info["episode"] = {**info.get("episode", {}), "r": returns, "l": lengths}
            if self._roles:
                rewards = info.get("agent_reward", reward[:, None])
                info["episode"]["role_r"] = sums = {
                    role: self._role_returns[role] + where(going, rewards[:, agents].mean(1), zero)
                    for role, agents in self._roles.items()
                }
                self._role_returns = {role: where(unfinished, total, zero) for role, total in sums.items()}
            info["_episode"] = over
            self._returns, self._lengths = where(unfinished, returns, zero), lengths * unfinished
        return obs, reward, terminated, truncated, info

    def state_dict(self) -> dict[str, Any]:
        """Return the sums of the present episodes, and which envs wait for a reset; see ``DeviceWrapper``."""
        sums = {"returns": self._returns, "lengths": self._lengths, "role_returns": dict(self._role_returns)}
        return {**sums, "ended": self._running.ended}

    def _continue_from(self, state: dict[str, Any]) -> None:
        self._returns, self._lengths, self._role_returns = state["returns"], state["lengths"], state["role_returns"]
        self._running.ended = state["ended"]


def _agents_of_roles(counts: Mapping[str, int]) -> dict[str, slice]:
    """Numbers of the agents of each role."""
    ends = np.cumsum(list(counts.values())).tolist()
    return {role: slice(end - count, end) for (role, count), end in zip(counts.items(), ends, strict=True)}
