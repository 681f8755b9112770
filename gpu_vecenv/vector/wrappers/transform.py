"""Wrappers that clip or change actions, rewards and observations with operations on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_vecenv.errors import ArrayTypeError, GpuVecenvError, ParameterError, ShapeError
from gpu_vecenv.spec.validation import ArrayT, abbreviated, real_number, rounded
from gpu_vecenv.vector.outputs.tree import leaves
from gpu_vecenv.vector.wrappers.wrapper import DeviceWrapper


class TransformObservation(DeviceWrapper[ArrayT]):
    """Replaces observations by a function of them, final observations of same-step mode included.

    Args:
        env: an env of this package.
        func: takes ``obs`` as the env gives it, leading axis envs, and returns an array with that axis, on the device. It also
            takes ``info["final_obs"]``, whose rows may hold anything where no episode ended.
        single_observation_space: space of one env's result; None if it is that of the env.

    Raises:
        ParameterError: the wrapped env is not one of this package, ``func`` is no function, or the space is none.
        ShapeError: in a reset, if the leading axis of a result is not envs.
    """

    def __init__(
        self, env: VectorEnv[ArrayT, Any, Any], func: Callable[[Any], Any], single_observation_space: Space | None = None
    ) -> None:
        super().__init__(env)
        self.func = _function(func)
        if single_observation_space is not None:
            self.single_observation_space = _space(single_observation_space)

    @cached_property
    def observation_space(self) -> Space:  # type: ignore[override]  # it can be assigned, which mypy does not know
        """Batched observation space, built at its first use."""
        return batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[ArrayT, dict[str, Any]]:
        """Reset the env and transform its observations."""
        obs, info = self.env.reset(seed=seed, options=options)
        with self._memory.here():
            return _with_rows(self.func(obs), self.num_envs), info

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
        ShapeError: in the first step, if ``func`` does not return one number for each env.
    """

    def __init__(self, env: VectorEnv[ArrayT, Any, Any], func: Callable[[ArrayT], ArrayT]) -> None:
        super().__init__(env)
        self.func = _function(func)
        self._checked = False

    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Step the env and transform its rewards."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        with self._memory.here():
            changed = self.func(reward)
        if not self._checked:
            self._checked = _with_rows(changed, self.num_envs, axes=1) is changed
        return obs, changed, terminated, truncated, info


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
        """Step the env with clipped actions.

        Raises:
            ArrayTypeError: actions that are no numbers, or that do not fit into one array.
        """
        with self._memory.here():
            try:
                clipped = self._library.clip(self._memory.adopt(actions, "actions"), self._low, self._high)
            except GpuVecenvError:
                raise
            except (TypeError, ValueError, RuntimeError) as error:  # NumPy, torch, CuPy and JAX differ
                got = str(getattr(actions, "dtype", abbreviated(actions)))
                raise ArrayTypeError(f"actions must be numbers in the shape of action_space, got {got}: {error}.") from error
        return self.env.step(clipped)


def _with_rows(result: Any, num_envs: int, axes: int | None = None) -> Any:
    """Return the result of a function, in which each array must have the leading axis envs, and ``axes`` axes if it is given.

    Raises:
        ShapeError: it has not.
    """
    for array in leaves(result):
        shape = tuple(getattr(array, "shape", ()))
        if shape[:1] != (num_envs,) or axes not in (None, len(shape)):
            expected = f"({num_envs},)" if axes == 1 else f"({num_envs}, ...)"
            got = shape if hasattr(array, "shape") else abbreviated(array)
            raise ShapeError(f"func must return an array of the shape {expected}, got {got}.")
    return result


def _function(func: Any) -> Any:
    """Return a function.

    Raises:
        ParameterError: another value.
    """
    if not callable(func):
        raise ParameterError(f"func must be a function, got {abbreviated(func)}.")
    return func


def _space(space: Any) -> Space:
    """Return a space.

    Raises:
        ParameterError: another value.
    """
    if not isinstance(space, Space):
        raise ParameterError(f"single_observation_space must be a Space or None, got {abbreviated(space)}.")
    return space


def _bound(name: str, value: Any) -> float | None:
    """Return a bound as a float, or None for None.

    Raises:
        ParameterError: NaN, or no number.
    """
    number = real_number(value)
    if value is not None and (number is None or number != number):
        raise ParameterError(f"{name} must be a number or None, got {abbreviated(value)}.")
    return None if number is None else rounded(number, "float64")
