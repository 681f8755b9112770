"""Wrappers that clip or change actions, rewards and observations with operations on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.given import ArrayT, abbreviated, real_number, rounded
from gpu_vecenv.vector.wrapper import DeviceWrapper


class TransformObservation(DeviceWrapper[ArrayT]):
    """Replaces observations by a function of them, final observations of same-step mode included.

    Args:
        env: an env of this package.
        func: takes ``obs`` as the env gives it, leading axis envs, and returns an array with that axis, on the device. It also
            takes ``info["final_obs"]``, whose rows may hold anything where no episode ended.
        single_observation_space: space of one env's result; None if it is that of the env.

    Raises:
        ParameterError: the wrapped env is not one of this package, or ``func`` is no function.
    """

    def __init__(
        self, env: VectorEnv[ArrayT, Any, Any], func: Callable[[Any], Any], single_observation_space: Space | None = None
    ) -> None:
        super().__init__(env)
        self.func = _function(func)
        if single_observation_space is not None:
            self.single_observation_space = single_observation_space

    @cached_property
    def observation_space(self) -> Space:  # type: ignore[override]  # it can be assigned, which mypy does not know
        """Batched observation space, built at its first use."""
        return batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[ArrayT, dict[str, Any]]:
        """Reset the env and transform its observations."""
        obs, info = self.env.reset(seed=seed, options=options)
        with self._memory.here():
            return self.func(obs), info

    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Step the env and transform its observations."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        with self._memory.here():
            if "final_obs" in info:
                info["final_obs"] = self.func(info["final_obs"])
            return self.func(obs), reward, terminated, truncated, info


class TransformReward(DeviceWrapper[ArrayT]):
    """Replaces rewards by a function of them. ``info["agent_reward"]`` stays as it is.

    Args:
        env: an env of this package.
        func: takes rewards ``(num_envs,)`` and returns as many, on the device.

    Raises:
        ParameterError: the wrapped env is not one of this package, or ``func`` is no function.
    """

    def __init__(self, env: VectorEnv[ArrayT, Any, Any], func: Callable[[ArrayT], ArrayT]) -> None:
        super().__init__(env)
        self.func = _function(func)

    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Step the env and transform its rewards."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        with self._memory.here():
            return obs, self.func(reward), terminated, truncated, info


class ClipReward(DeviceWrapper[ArrayT]):
    """Clips rewards to a range. ``info["agent_reward"]`` stays as it is.

    Args:
        env: an env of this package.
        min_reward: smallest reward; None for no bound.
        max_reward: largest reward; None for no bound.

    Raises:
        ParameterError: no bound, a bound that is NaN or no number, or ``min_reward`` above ``max_reward``.
    """

    def __init__(
        self, env: VectorEnv[ArrayT, Any, Any], min_reward: float | None = None, max_reward: float | None = None
    ) -> None:
        super().__init__(env)
        self.min_reward, self.max_reward = _bound("min_reward", min_reward), _bound("max_reward", max_reward)
        if self.min_reward is None and self.max_reward is None:
            raise ParameterError("ClipReward needs min_reward, max_reward or both, got neither.")
        if self.min_reward is not None and self.max_reward is not None and self.min_reward > self.max_reward:
            raise ParameterError(f"min_reward must not be above max_reward, got {min_reward} and {max_reward}.")

    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Step the env and clip its rewards."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        with self._memory.here():
            return obs, self._library.clip(reward, self.min_reward, self.max_reward), terminated, truncated, info


class ClipAction(DeviceWrapper[ArrayT]):
    """Clips continuous actions to the bounds of the env, so that a policy may give any numbers.

    Actions of another array kind are converted to that of the env first.

    Args:
        env: an env of this package whose action space is a Box.

    Raises:
        ParameterError: an env that does not fit.
    """

    def __init__(self, env: VectorEnv[ArrayT, Any, Any]) -> None:
        super().__init__(env)
        space = env.single_action_space
        if not isinstance(space, Box):
            raise ParameterError(f"ClipAction needs an env whose action space is a Box, got {type(space).__name__}.")
        self._low, self._high = self._memory.from_numpy(space.low), self._memory.from_numpy(space.high)
        self.single_action_space = Box(-np.inf, np.inf, space.shape, space.dtype)

    @cached_property
    def action_space(self) -> Space:  # type: ignore[override]  # it can be assigned, which mypy does not know
        """Batched action space without bounds, built at its first use."""
        return batch_space(self.single_action_space, self.num_envs)

    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Step the env with clipped actions."""
        with self._memory.here():
            clipped = self._library.clip(self._memory.adopt(actions, "actions"), self._low, self._high)
        return self.env.step(clipped)


def _function(func: Any) -> Any:
    """Return a function.

    Raises:
        ParameterError: another value.
    """
    if not callable(func):
        raise ParameterError(f"func must be a function, got {abbreviated(func)}.")
    return func


def _bound(name: str, value: Any) -> float | None:
    """Return a bound as a float, or None for None.

    Raises:
        ParameterError: NaN, or no number.
    """
    number = real_number(value)
    if value is not None and (number is None or number != number):
        raise ParameterError(f"{name} must be a number or None, got {abbreviated(value)}.")
    return None if number is None else rounded(number, "float64")
