"""Wrappers that normalise observations and rewards by running statistics, which stay on the device.

The formulas and the names of arguments and attributes are those of ``NormalizeObservation`` and ``NormalizeReward`` in
``gymnasium.wrappers.vector``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_vecenv.errors import ArrayTypeError, DeviceError, ParameterError, ShapeError
from gpu_vecenv.spec.validation import Array, ArrayT, abbreviated, array_library, describe, real_number
from gpu_vecenv.vector.wrappers.wrapper import DeviceWrapper, Running
from gpu_vecenv.vector.wrappers.wrapper_state import fitting_state


class RunningMoments:
    """Mean and variance of all samples so far.

    The first values, mean 0 and variance 1, count as 1e-4 samples, as in Gymnasium's ``RunningMeanStd``. Moments of a batch are
    merged by the formula of Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances" (1979). They can be pickled, and stored by ``torch.save``.

    Args:
        zeros: float64 zeros, in the shape of a sample, on the device.

    Attributes:
        mean: float64, in the shape of a sample.
        var: the same.
        count: number of samples, float64 ().
    """

    def __init__(self, zeros: Array) -> None:
        self._kind = describe(zeros).kind
        # Any: a type checker knows no operation of two arrays that may be of different libraries.
        self.mean: Any = zeros
        self.var: Any = self.mean + 1
        self.count: Any = self.mean.sum() + 1e-4

    @property
    def _library(self) -> Any:
        """The library of the arrays; a module cannot be pickled, so it is no attribute."""
        return array_library(self._kind)

    def update(self, samples: Any, valid: Any) -> None:
        """Merge samples.

        Args:
            samples: ``(num_envs, ...)``.
            valid: bool ``(num_envs,)``, False for samples to leave out, which may hold anything.
        """
        chosen = valid.reshape((-1,) + (1,) * (samples.ndim - 1))
        number = valid.sum()
        total = self.count + number
        deviation = self._library.where(chosen, samples - self.mean, 0)
        shift = deviation.sum(0) / number.clip(1)
        squares = (self._library.where(chosen, deviation - shift, 0) ** 2).sum(0)
        self.var = (self.var * self.count + squares + shift**2 * (self.count * number / total)) / total
        self.mean = self.mean + shift * (number / total)
        self.count = total

    def state_dict(self) -> dict[str, Any]:
        """Return the three arrays by name. An update makes new ones."""
        return {"mean": self.mean, "var": self.var, "count": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take arrays of the kind, device, shapes and dtypes of the present ones."""
        self.mean, self.var, self.count = state["mean"], state["var"], state["count"]


class NormalizeObservation(DeviceWrapper[ArrayT]):
    """Shifts and scales each observed number to mean 0 and deviation 1, by running statistics of all envs together.

    An observation ``x`` becomes ``(x - mean) / sqrt(var + epsilon)``, float32. Each observation of an episode counts once, the
    first and the last included. ``info["final_obs"]`` of same-step mode is normalised with the same statistics; they are updated
    with it and with the first observation of the next episode before either is normalised. An env that waits for a reset gives
    its last observation again, which does not count again.

    ``observe()`` of the env and slabs that were bound hold observations that are not normalised.

    Args:
        env: an env of this package whose observations are one array; for roles with spaces of their own, wrap ``RoleRows``.
        epsilon: added to the variance, above 0.

    Attributes:
        update_running_mean: False to keep the statistics as they are.

    Raises:
        ParameterError: an env or an argument that does not fit.
    """

    def __init__(self, env: VectorEnv[ArrayT, Any, Any], epsilon: float = 1e-8) -> None:
        super().__init__(env)
        space = env.single_observation_space
        if not isinstance(space, Box):
            what = f"observations in one array, got the space {type(space).__name__}"
            raise ParameterError(
                f"NormalizeObservation needs {what}; wrap RoleRows(env, role). The bundled trainer normalises by itself."
            )
        self.epsilon = _above_zero("epsilon", epsilon)
        self.single_observation_space = Box(-np.inf, np.inf, space.shape, np.float32)
        self._obs_rms = RunningMoments(self._zeros(*space.shape))
        self.update_running_mean = True
        self._all = self._zeros(self.num_envs) == 0
        self._running = Running("NormalizeObservation", self._memory, self.num_envs, self._mode)

    @property
    def obs_rms(self) -> RunningMoments:
        """Statistics: ``mean`` and ``var``, float64 in the shape of one env's observation, and ``count``.

        An env for evaluation can share them: ``other.obs_rms = env.obs_rms``.

        Raises:
            ArrayTypeError: no RunningMoments, or arrays of another kind than those of the env.
            DeviceError: arrays on another device.
            ShapeError: statistics of observations of another shape.
        """
        return self._obs_rms

    @obs_rms.setter
    def obs_rms(self, moments: RunningMoments) -> None:
        self._obs_rms = _fitting("obs_rms", moments, self._obs_rms)

    @cached_property
    def observation_space(self) -> Space:  # type: ignore[override]  # it can be assigned, which mypy does not know
        """Batched observation space, built at its first use."""
        return batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[ArrayT, dict[str, Any]]:
        """Reset the env; observations of the envs that were reset count."""
        obs, info = self.env.reset(seed=seed, options=options)
        begun = self._running.reset(options)
        with self._memory.here():
            self._count(obs, begun)
            return self._normal(obs), info

    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Step the env and normalise its observations."""
        self._running.require_started()
        obs, reward, terminated, truncated, info = self.env.step(actions)
        with self._memory.here():
            if "final_obs" in info:
                self._count(info["final_obs"], info["_final_obs"])
            going, _ = self._running.step(terminated, truncated)
            self._count(obs, going if self._mode is AutoresetMode.DISABLED else self._all)
            if "final_obs" in info:
                info["final_obs"] = self._normal(info["final_obs"])
            return self._normal(obs), reward, terminated, truncated, info

    def state_dict(self) -> dict[str, Any]:
        """Return statistics, ``update_running_mean``, and which envs wait for a reset; see ``DeviceWrapper``."""
        updates = {"update_running_mean": bool(self.update_running_mean)}
        return {"obs_rms": self.obs_rms.state_dict(), **updates, "ended": self._running.ended}

    def freeze_statistics(self, state: Mapping[str, Any] | None = None) -> None:
        """Take the statistics of a state, or keep the present ones, and update them no longer; see ``DeviceWrapper``."""
        if state is not None:
            self.obs_rms = _saved_moments("obs_rms", state, self.obs_rms, self._memory)
        self.update_running_mean = False

    def _continue_from(self, state: dict[str, Any]) -> None:
        self.obs_rms.load_state_dict(state["obs_rms"])
        self.update_running_mean, self._running.ended = state["update_running_mean"], state["ended"]

    def _count(self, obs: Array, valid: Array) -> None:
        """Update the statistics."""
        if self.update_running_mean:
            self.obs_rms.update(obs, valid)

    def _normal(self, obs: Any) -> Any:
        """Return normalised observations in a new array."""
        moments = self.obs_rms
        return self._float32((obs - moments.mean) / (moments.var + self.epsilon) ** 0.5)


class NormalizeReward(DeviceWrapper[ArrayT]):
    """Divides rewards by the deviation of discounted sums of rewards, by running statistics of all envs together.

    A reward ``r`` becomes ``r / sqrt(var + epsilon)``, float32, where ``var`` is the variance of the sums. The sum of an env is
    ``gamma * sum + r`` in each step of an episode; in a step that terminates the episode it is ``r`` alone, as in Gymnasium. It
    starts at 0 in each episode. In next-step mode, Gymnasium's wrapper carries the sum into the next episode; this one does not,
    so that all modes give the same statistics. ``info["agent_reward"]`` stays as it is.

    Args:
        env: an env of this package.
        gamma: discount per step, from 0 to 1.
        epsilon: added to the variance, above 0.

    Attributes:
        update_running_mean: False to keep the statistics as they are.

    Raises:
        ParameterError: an env or an argument that does not fit.
    """

    def __init__(self, env: VectorEnv[ArrayT, Any, Any], gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__(env)
        discount = real_number(gamma)
        if discount is None or not 0 <= discount <= 1:
            raise ParameterError(f"gamma must be a number from 0 to 1, got {abbreviated(gamma)}.")
        self.gamma, self.epsilon = discount, _above_zero("epsilon", epsilon)
        self._return_rms = RunningMoments(self._zeros())
        self.update_running_mean = True
        self._sums = self._zeros(self.num_envs)
        self._running = Running("NormalizeReward", self._memory, self.num_envs, self._mode)

    @property
    def return_rms(self) -> RunningMoments:
        """Statistics of the sums: ``mean``, ``var`` and ``count``, float64 (). An env for evaluation can share them.

        Raises:
            ArrayTypeError: no RunningMoments, or arrays of another kind than those of the env.
            DeviceError: arrays on another device.
            ShapeError: statistics of observations.
        """
        return self._return_rms

    @return_rms.setter
    def return_rms(self, moments: RunningMoments) -> None:
        self._return_rms = _fitting("return_rms", moments, self._return_rms)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[ArrayT, dict[str, Any]]:
        """Reset the env and the sums of the envs that were reset."""
        obs, info = self.env.reset(seed=seed, options=options)
        begun = self._running.reset(options)
        with self._memory.here():
            self._sums = self._library.where(begun, 0, self._sums)
        return obs, info

    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Step the env and normalise its rewards."""
        self._running.require_started()
        obs, reward, terminated, truncated, info = self.env.step(actions)
        with self._memory.here():
            going, over = self._running.step(terminated, truncated)
            sums = self._sums * self.gamma * ~terminated + reward
            if self.update_running_mean:
                self.return_rms.update(sums, going)
            self._sums = self._library.where(going & ~over, sums, 0)
            scaled = self._float32(reward / (self.return_rms.var + self.epsilon) ** 0.5)
        return obs, scaled, terminated, truncated, info

    def state_dict(self) -> dict[str, Any]:
        """Return statistics, ``update_running_mean``, sums, and which envs wait for a reset; see ``DeviceWrapper``."""
        of_envs = {"sums": self._sums, "ended": self._running.ended}
        return {"return_rms": self.return_rms.state_dict(), "update_running_mean": bool(self.update_running_mean), **of_envs}

    def freeze_statistics(self, state: Mapping[str, Any] | None = None) -> None:
        """Take the statistics of a state, or keep the present ones, and update them no longer; see ``DeviceWrapper``."""
        if state is not None:
            self.return_rms = _saved_moments("return_rms", state, self.return_rms, self._memory)
        self.update_running_mean = False

    def _continue_from(self, state: dict[str, Any]) -> None:
        self.return_rms.load_state_dict(state["return_rms"])
        self.update_running_mean, self._sums, self._running.ended = state["update_running_mean"], state["sums"], state["ended"]


def _saved_moments(name: str, state: Mapping[str, Any], present: RunningMoments, memory: Any) -> RunningMoments:
    """Return new statistics from the state of a wrapper; ``present`` may be shared with another env.

    Raises:
        ParameterError, ArrayTypeError, ShapeError: the state has none of this form.
    """
    if not isinstance(state, Mapping) or name not in state:
        got = f"the keys {list(state)}" if isinstance(state, Mapping) else type(state).__name__
        raise ParameterError(f"the state must be a dict with the key {name!r}, got {got}.")
    moments = copy.copy(present)
    moments.load_state_dict(fitting_state(state[name], present.state_dict(), memory, name))
    return moments


def _fitting(name: str, moments: Any, present: RunningMoments) -> RunningMoments:
    """Return given statistics, whose arrays must have the kind, the device and the shape of the present ones.

    Raises:
        ArrayTypeError, DeviceError, ShapeError: they have not.
    """
    if not isinstance(moments, RunningMoments):
        raise ArrayTypeError(f"{name} must be RunningMoments, got {type(moments).__name__}.")
    expected, form = describe(present.mean), describe(moments.mean)
    if form.kind != expected.kind:
        raise ArrayTypeError(f'{name} must have arrays of the kind "{expected.kind}", as the env, got "{form.kind}".')
    if form.device != expected.device:
        raise DeviceError(f"{name} must be on {expected.device}, as the env, got arrays on {form.device}.")
    shape, got = tuple(present.mean.shape), tuple(moments.mean.shape)
    if got != shape:
        raise ShapeError(f"{name} must have the shape {shape}, got {got}.")
    return moments


def _above_zero(name: str, value: Any) -> float:
    """Return a number above 0.

    Raises:
        ParameterError: another value.
    """
    number = real_number(value)
    if number is None or not 0 < number < float("inf"):
        raise ParameterError(f"{name} must be a number above 0, got {abbreviated(value)}.")
    return number
