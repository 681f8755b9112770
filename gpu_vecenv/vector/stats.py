"""Episode statistics, computed on the device, with the keys of Gymnasium's ``RecordEpisodeStatistics``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gpu_vecenv.backend.memory import output_memory
from gpu_vecenv.errors import ParameterError, SequenceError
from gpu_vecenv.spec.given import Array, host_array
from gpu_vecenv.vector.role_rows import RoleRows
from gpu_vecenv.vector.vector_env import GpuVectorEnv


class EpisodeStatistics(VectorWrapper):
    """Adds ``r`` (return, float32 ``(num_envs,)``) and ``l`` (length in steps, int32) to ``info["episode"]``.

    If the arrays of the env are by role, ``role_r`` is a dict with the return of each role, the mean over its agents. Metrics of
    the env stay in ``info["episode"]``.

    The arrays have the array kind and the device of the env. They are valid where ``info["_episode"]`` (bool) is true: in the
    step that ends an episode. No array is copied to the host.

    Raises:
        ParameterError: the wrapped env is not one of this package.
    """

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, GpuVectorEnv | RoleRows):
            raise ParameterError(f"EpisodeStatistics wraps an env of this package, got {type(inner).__name__}.")
        self._memory = output_memory(inner.array, "cpu" if inner.array == "numpy" else inner.device)
        self._mode = inner.autoreset_mode
        self._returns: Array = None
        self._lengths: Array = None
        self._ended: Array = None
        by_role = isinstance(inner, GpuVectorEnv) and inner.env_spec.by_role
        self._roles = _agents_of_roles(inner.role_counts) if by_role else {}
        self._role_returns: dict[str, Array] = {}

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Reset the env and the statistics of the envs that were reset."""
        obs, info = self.env.reset(seed=seed, options=options)
        mask = (options or {}).get("reset_mask")
        if mask is None or self._returns is None:
            zeros = (np.zeros(self.num_envs, dtype) for dtype in ("float32", "int32", "bool"))
            self._returns, self._lengths, self._ended = map(self._memory.from_numpy, zeros)
            self._role_returns = {role: self._returns for role in self._roles}
        else:
            with self._memory.here():
                kept = ~self._memory.from_numpy(host_array(mask))
                self._returns, self._lengths = self._returns * kept, self._lengths * kept
                self._ended = self._ended & kept
                self._role_returns = {role: returns * kept for role, returns in self._role_returns.items()}
        return obs, info

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Step the env and add the statistics of episodes that end in this step."""
        if self._returns is None:
            raise SequenceError("call reset() of this wrapper before step().")
        obs, reward, terminated, truncated, info = self.env.step(actions)
        with self._memory.here():
            going = ~self._ended  # a step that resets (next-step mode) or does nothing (disabled mode) is not counted
            returns = self._returns + reward * going
            lengths = self._lengths + going
            over = (terminated | truncated) & going
            info["episode"] = {**info.get("episode", {}), "r": returns, "l": lengths}
            if self._roles:
                rewards = info.get("agent_reward", reward[:, None])
                info["episode"]["role_r"] = sums = {
                    role: self._role_returns[role] + rewards[:, agents].mean(1) * going for role, agents in self._roles.items()
                }
                self._role_returns = {role: total * ~over for role, total in sums.items()}
            info["_episode"] = over
            self._returns, self._lengths = returns * ~over, lengths * ~over
            if self._mode is not AutoresetMode.SAME_STEP:
                self._ended = over if self._mode is AutoresetMode.NEXT_STEP else self._ended | over
        return obs, reward, terminated, truncated, info


def _agents_of_roles(counts: Mapping[str, int]) -> dict[str, slice]:
    """Numbers of the agents of each role."""
    ends = np.cumsum(list(counts.values())).tolist()
    return {role: slice(end - count, end) for (role, count), end in zip(counts.items(), ends, strict=True)}
