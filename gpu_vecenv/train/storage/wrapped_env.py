"""An env inside wrappers of this package, with the calls by which the trainer steps an env alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from gymnasium.spaces import Box
from gymnasium.vector import VectorWrapper
from torch import Tensor

from gpu_vecenv.errors import ArrayTypeError, ShapeError
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.vector.outputs.results import OF_ACTIONS
from gpu_vecenv.vector.wrappers.wrapper import DeviceWrapper

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


class Tap(VectorWrapper):
    """The innermost wrapper: copies the env's own rewards and metrics, before another wrapper can change them in place."""

    target: Tensor | None = None
    """float32 (R,), where the rewards of the next step go; None for nowhere."""
    episode: Mapping[str, Tensor] = MappingProxyType({})
    """float32 (R,) by metric, where the metrics of the next step go."""

    def step(self, actions: Any) -> Any:
        """Step the env."""
        results = self.env.step(actions)
        if self.target is not None:
            self.target.copy_(results[1])
        for name, target in self.episode.items():
            target.copy_(results[4]["episode"][name])
        return results


class WrappedLayout(NamedTuple):
    """The parts of an env's layout that the trainer reads."""

    groups: tuple[Group, ...]
    """The agents, with the spaces that the wrappers give them."""
    role_counts: Mapping[str, int]
    """Agents of each role in a world."""


class WrappedEnv:
    """Steps an env through its wrappers and copies the results to slabs, which the env alone would write itself.

    Attributes that are not listed are those of the env inside, such as its state, its parameters and the rows of roles. Calls of
    its ``rollout()`` do not go through the wrappers; ``reset()`` follows.

    Attributes:
        outermost: the outermost wrapper.
        inner: the env inside.
        wrappers: the wrappers by place and class, the innermost first.
        layout: groups with the spaces of the wrappers.
    """

    def __init__(self, outermost: VectorWrapper) -> None:
        """Put a tap for rewards and metrics between the env and its wrappers.

        Args:
            outermost: wrappers of this package around an env in the agents view, whose observations are a float32 Box.
        """
        self.outermost = outermost
        self.inner: GpuVectorEnv = outermost.unwrapped  # type: ignore[assignment]  # an env of this package
        chain: list[Any] = [outermost]
        while isinstance(chain[-1].env, VectorWrapper):
            chain.append(chain[-1].env)
        self._tap = Tap(self.inner)
        chain[-1].env = self._tap
        self.wrappers: dict[str, DeviceWrapper] = {f"{i} {type(each).__name__}": each for i, each in enumerate(reversed(chain))}
        self.single_observation_space = outermost.single_observation_space
        self.single_action_space = action = outermost.single_action_space
        (group,) = self.inner.layout.groups
        drawn = group.action if isinstance(action, Box) and not action.is_bounded() else None
        group = replace(group, observation=self.single_observation_space, action=action, random_action=drawn)  # type: ignore[arg-type]
        self.layout = WrappedLayout((group,), self.inner.layout.role_counts)
        self._slabs: dict[str, Any] = {}
        self._slot = 0
        self._last: dict[str, Any] = {}
        self._evaluates = False

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the env inside."""
        if name == "inner":  # not set yet
            raise AttributeError(name)
        return getattr(self.inner, name)

    @torch.no_grad()
    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Tensor, dict[str, Any]]:
        """Reset the env through the wrappers; see ``GpuVectorEnv.reset``."""
        obs, info = self.outermost.reset(seed=seed, options=options)
        self._last = {"obs": obs, **{name: info.get(name) for name in OF_ACTIONS}}
        self._slot = self._slot if "reset_mask" in (options or {}) else 0
        self._write_last()
        return obs, info

    @torch.no_grad()
    def step(self, actions: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Step the env through the wrappers, and copy the results to the next slot; see ``GpuVectorEnv.step``.

        Raises:
            ShapeError, ArrayTypeError: a wrapper's function returns arrays of another shape, dtype or device.
        """
        slabs, t = self._slabs, self._slot
        rewards = slabs["reward" if self._evaluates else "env_reward"]
        self._tap.target = rewards[t]
        self._tap.episode = {name: slab[t] for name, slab in slabs.get("episode", {}).items()}
        obs, reward, terminated, truncated, info = self.outermost.step(actions)
        self._last = {"obs": obs, **{name: info.get(name) for name in OF_ACTIONS}}
        self._slot += 1
        self._write_last()
        if not self._evaluates:
            self._write("reward", t, reward)
        slabs["terminated"][t], slabs["truncated"][t] = terminated, truncated
        for name in ("agent_alive", "final_obs", *(f"final_{name}" for name in OF_ACTIONS)):
            if name in slabs:
                self._write(name, t, info[name])
        return obs, reward, terminated, truncated, info

    def bind(self, **slabs: Any) -> None:
        """Write the results of steps to slabs, from slot 0 on; see ``GpuVectorEnv.bind``.

        Args:
            **slabs: those of an env alone, and ``env_reward`` float32 (T, R) for the env's own rewards.
        """
        self._slabs, self._slot = slabs, 0
        self._write_last()

    def unbind(self) -> None:
        """Leave the slabs to the caller."""
        self._slabs, self._tap.target, self._tap.episode = {}, None, {}

    def rewind(self) -> None:
        """Copy the last observation and masks to slot 0, and continue from there."""
        if self._slot:
            for name in self._last.keys() & self._slabs.keys():
                self._slabs[name][0] = self._slabs[name][self._slot]
        self._slot = 0

    @property
    def slot(self) -> int:
        """The next slot to write, which holds the last observation and masks."""
        return self._slot

    def move_to(self, slot: int) -> None:
        """See ``slot``."""
        self._slot = slot

    def close(self) -> None:
        """Close the wrappers and the env."""
        self.outermost.close()

    def wrapper_states(self) -> dict[str, dict[str, Any]]:
        """Return the state of each wrapper, after a reset."""
        return {name: wrapper.state_dict() for name, wrapper in self.wrappers.items()}

    def load_wrapper_states(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the states that ``wrapper_states()`` of an env of this size returned, after a reset."""
        for name, wrapper in self.wrappers.items():
            wrapper.load_state_dict(states[name])

    def evaluate_with(self, states: Mapping[str, Mapping[str, Any]] | None) -> None:
        """Evaluate policies from now on: statistics stay as they are in states, and rewards are the env's own.

        Args:
            states: states of the same wrappers around an env of any size; None for the present statistics.
        """
        self._evaluates = True
        for name, wrapper in self.wrappers.items():
            wrapper.freeze_statistics(None if states is None else states[name])

    def _write_last(self) -> None:
        """Copy the last observations and masks to the present slot."""
        for name, values in self._last.items():
            if name in self._slabs:
                self._write(name, self._slot, values)

    def _write(self, name: str, slot: int, values: Any) -> None:
        """Copy an array to a slot.

        Raises:
            ShapeError, ArrayTypeError: it has another shape, dtype or device; a copy would change it without a word.
        """
        target = self._slabs[name][slot]
        if not isinstance(values, Tensor) or (values.dtype, values.device) != (target.dtype, target.device):
            got = f"{values.dtype} on {values.device}" if isinstance(values, Tensor) else type(values).__name__
            raise ArrayTypeError(
                f"wrappers {self._names}: expected {name} as a tensor of {target.dtype} on {target.device}, got {got}."
            )
        if values.shape != target.shape:
            raise ShapeError(
                f"wrappers {self._names}: expected {name} of the shape {tuple(target.shape)}, got {tuple(values.shape)}; "
                "single_observation_space of TransformObservation is the space of one row."
            )
        target.copy_(values)

    @property
    def why_eager(self) -> str:
        """Reason why steps of this env cannot be part of a CUDA graph."""
        return f"the env has wrappers ({self._names}), whose Python code runs in each step"

    @property
    def _names(self) -> str:
        return ", ".join(type(wrapper).__name__ for wrapper in self.wrappers.values())


def as_wrapped(env: object) -> WrappedEnv | None:
    """Return an env that is stepped through wrappers; None for an env alone."""
    return env if isinstance(env, WrappedEnv) else None
