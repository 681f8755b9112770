"""Base of this package's wrappers, whose arrays stay on the device, and what they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gpu_vecenv.backend.memory import Memory, public_memory
from gpu_vecenv.errors import ParameterError, SequenceError, UnknownAttributeError
from gpu_vecenv.spec.validation import ArrayT, array_library, host_array
from gpu_vecenv.vector.env.pickling import Copied
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.wrappers.role_rows import RoleRows
from gpu_vecenv.vector.wrappers.wrapper_state import fitting_state

if TYPE_CHECKING:
    Wrapper = VectorWrapper[ArrayT, Any, Any, Any, Any]
else:

    class Wrapper(VectorWrapper, Generic[ArrayT]):
        """Gymnasium's class, which has no type parameters before 1.4."""


NUMPY_ONLY = {
    "RecordEpisodeStatistics": "EpisodeStatistics",
    "NormalizeObservation": "NormalizeObservation",
    "NormalizeReward": "NormalizeReward",
    "ClipReward": "ClipReward",
}
"""Gymnasium's vector wrappers that compute with NumPy, and this package's wrappers that replace them."""


class DeviceWrapper(Copied, Wrapper[ArrayT]):
    """Wrapper whose arrays have the array kind and the device of the env. A step of it never waits for the device.

    A copy of a wrapper wraps a copy of the env.

    Raises:
        ParameterError: the wrapped env is not one of this package, or a wrapper of Gymnasium around it needs NumPy arrays.
    """

    def __init__(self, env: VectorEnv[ArrayT, Any, Any]) -> None:
        name, inner = type(self).__name__, getattr(env, "unwrapped", env)
        if not isinstance(inner, GpuVectorEnv | RoleRows):
            raise ParameterError(f"{name} wraps an env of this package, got {type(inner).__name__}.")
        super().__init__(env)
        while inner.array != "numpy" and isinstance(env, VectorWrapper):
            theirs = type(env).__name__
            if type(env).__module__.startswith("gymnasium.") and theirs in NUMPY_ONLY:
                raise ParameterError(
                    f'Gymnasium\'s {theirs} computes with NumPy, and the arrays of this env are of the kind "{inner.array}"; '
                    f"use gpu_vecenv.{NUMPY_ONLY[theirs]}."
                )
            env = env.env
        self._memory = public_memory(inner.array, inner.device)
        self._mode: AutoresetMode = inner.autoreset_mode

    def state_dict(self) -> dict[str, Any]:
        """Return all that later steps of this wrapper depend on; empty if they depend on nothing.

        The env inside has ``get_state()``, and other wrappers have states of their own.

        Returns:
            A dict of dicts, bools and arrays. The arrays are on the device and are never written again.

        Raises:
            SequenceError: before the first reset.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that ``state_dict()`` of an env of this size returned.

        Args:
            state: the dict; its arrays may be of any kind, on any device.

        Raises:
            SequenceError: before the first reset.
            ParameterError, ArrayTypeError, ShapeError: a state of another wrapper, of another array dtype, or of another size.
        """
        self._continue_from(fitting_state(state, self.state_dict(), self._memory, f"the state of {type(self).__name__}"))

    def freeze_statistics(self, state: Mapping[str, Any] | None = None) -> None:
        """Take the running statistics in a state of ``state_dict()``, and update them no longer, for an evaluation.

        Args:
            state: state of an env of any size; None keeps the present statistics.

        Raises:
            ParameterError, ArrayTypeError, ShapeError: no such statistics, or those of observations of another shape.
        """

    def _continue_from(self, state: dict[str, Any]) -> None:
        """Take a state of the form of ``state_dict()``."""

    def __getattr__(self, name: str) -> Any:
        """Refuse a name that neither this class nor Gymnasium's base class has.

        Raises:
            UnknownAttributeError: always.
        """
        inner = getattr(vars(self).get("env"), "unwrapped", None)
        hint = f"; env.unwrapped.{name} works without wrappers" if name[:1] != "_" and hasattr(type(inner), name) else ""
        raise UnknownAttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}.")

    @property
    def _library(self) -> Any:
        """The library of the arrays; a module cannot be pickled, so it is no attribute."""
        return array_library(self.unwrapped.array)  # type: ignore[attr-defined]  # an env of this package

    def _zeros(self, *shape: int, dtype: str = "float64") -> Any:
        """Return zeros on the device."""
        return self._memory.from_numpy(np.zeros(shape, dtype))

    def _float32(self, values: Any) -> Any:
        """Return an array as float32, on its device."""
        return self._library.asarray(values, dtype=self._library.float32)


class Running:
    """Which envs are in an episode, known from the flags of the steps.

    An env whose episode ended is in none until it is reset: for one step in next-step mode, until the caller resets it if
    autoreset is disabled. In same-step mode, every env always is in an episode.

    Args:
        owner: name of the wrapper, for its errors.
        memory: memory of the flags.
        num_envs: number of envs.
        mode: autoreset mode of the env.
    """

    def __init__(self, owner: str, memory: Memory, num_envs: int, mode: AutoresetMode) -> None:
        self._owner, self._memory, self._num_envs, self._mode = owner, memory, num_envs, mode
        self._ended: Any = None

    def reset(self, options: dict[str, Any] | None) -> Any:
        """Note a reset; return which envs it reset, bool (num_envs,)."""
        mask = (options or {}).get("reset_mask")
        begun = self._memory.from_numpy(np.ones(self._num_envs, bool) if mask is None else host_array(mask))
        with self._memory.here():
            self._ended = ~begun if self._ended is None else self._ended & ~begun
        return begun

    def step(self, terminated: Any, truncated: Any) -> tuple[Any, Any]:
        """Note the flags of a step.

        Returns:
            going: bool (num_envs,), True where the step was one of an episode, not a reset or a step without effect.
            over: bool (num_envs,), True where the step ended an episode.
        """
        going = ~self._ended
        over = (terminated | truncated) & going
        if self._mode is not AutoresetMode.SAME_STEP:
            self._ended = over if self._mode is AutoresetMode.NEXT_STEP else self._ended | over
        return going, over

    def require_started(self, call: str = "step()") -> None:
        """Raise SequenceError before the first reset."""
        if self._ended is None:
            raise SequenceError(f"call reset() of {self._owner} before {call}.")

    @property
    def ended(self) -> Any:
        """Which envs wait for a reset, bool (num_envs,); part of the state of a wrapper."""
        self.require_started("state_dict()")
        return self._ended

    @ended.setter
    def ended(self, ended: Any) -> None:
        self._ended = ended
