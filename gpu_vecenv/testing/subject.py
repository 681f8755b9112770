"""The env that a check looks at: its worlds, and random actions for them."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.spaces import Box, Dict

from gpu_vecenv.backend.base import Backend
from gpu_vecenv.errors import GpuVecenvError, ParameterError, UnknownIdError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.params import TIME_LIMITS
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.outputs.tree import tree_map

MakeBackend = Callable[[Layout], Backend]
"""From the layout of an env to the back end that steps it."""


SHORT = 13
"""Steps of a short episode."""


@dataclass(frozen=True)
class Subject:
    """An env to check.

    Args:
        env: id, which ``module:Env-v0`` imports first, or a spec.
        params: parameters of the env by name.
        num_worlds: worlds that checks step.
        num_steps: steps of each check.
        seed: seed of the worlds and of the actions.
    """

    env: str | EnvSpec
    params: Mapping[str, Any] = field(default_factory=dict)
    num_worlds: int = 4
    num_steps: int = 100
    seed: int = 7

    def make(self, backend: MakeBackend | None = None, **options: Any) -> GpuVectorEnv[np.ndarray]:
        """Return an env of NumPy arrays on the CPU, unless options say otherwise.

        Args:
            backend: makes the back end that steps the worlds; None for the usual one.
            options: keywords of ``GpuVectorEnv`` in place of those of the subject.

        Raises:
            ParameterError: the id makes no ``GpuVectorEnv``.
            GpuVecenvError: the env cannot be made.
        """
        keywords = {"num_worlds": self.num_worlds, "device": "cpu", "array": "numpy", **self.params, **options}
        env = GpuVectorEnv(self.env, **keywords) if isinstance(self.env, EnvSpec) else _make_by_id(self.env, keywords)
        if backend is not None:
            env.worlds.backend = backend(env.layout)
        return env

    def layout(self) -> Layout:
        """Return the memory layout of the env; its kernel is not compiled if the id is registered with its spec."""
        if isinstance(self.env, EnvSpec):
            return Layout(self.env, self.env.resolve(self.params))
        spec, params = _registered(self.env)
        if spec is not None:
            return Layout(spec, spec.resolve({**params, **self.params}))
        env = self.make(num_worlds=1)
        env.close()
        return env.layout

    def with_short_episodes(self) -> Subject:
        """Return the subject with episodes of ``SHORT`` steps, if a parameter that is not given sets their length."""
        spec = self.layout().spec
        for name in (param.name for param in spec.params if param.name in TIME_LIMITS and param.name not in self.params):
            shorter = replace(self, params={**self.params, name: SHORT})
            with contextlib.suppress(GpuVecenvError):
                shorter.layout()
                return shorter
        return self

    def quick(self) -> Subject:
        """Return the subject of a quick check: fewer steps."""
        return replace(self, num_steps=min(self.num_steps, 40))


def _make_by_id(env_id: str, options: Mapping[str, Any]) -> GpuVectorEnv[np.ndarray]:
    """Make the env of an id."""
    name = _imported(env_id)
    try:
        env = gymnasium.make_vec(name, **options).unwrapped
    except GpuVecenvError:
        raise
    except TypeError as error:  # another vector env does not know the options
        raise ParameterError(f"{env_id}: expected the id of a GpuVectorEnv: {error}.") from error
    if not isinstance(env, GpuVectorEnv):
        raise ParameterError(f"{env_id}: expected the id of a GpuVectorEnv, got one of {type(env).__name__}.")
    return env


def _imported(env_id: str) -> str:
    """Import the module of an id, and return the id without it."""
    module, colon, name = env_id.rpartition(":")
    if colon:
        try:
            importlib.import_module(module)
        except (ModuleNotFoundError, TypeError, ValueError) as error:
            raise UnknownIdError(f"{env_id}: the module {module!r} cannot be imported: {error}.") from error
    return name


def _registered(env_id: str) -> tuple[EnvSpec | None, Mapping[str, Any]]:
    """Return the spec and the parameters that an id is registered with.

    The spec is that of ``partial(GpuVectorEnv, SPEC)``; None if the env is made in another way.
    """
    registered = gymnasium.spec(_imported(env_id))
    named = registered.vector_entry_point
    entry: Any = load_env_creator(named) if isinstance(named, str) else named
    if not isinstance(entry, functools.partial) or entry.func is not GpuVectorEnv or entry.keywords:
        return None, registered.kwargs
    spec = entry.args[0] if len(entry.args) == 1 else None
    return spec if isinstance(spec, EnvSpec) else None, registered.kwargs


def random_actions(space: Any, rows: int, generator: np.random.Generator, beyond: bool = True) -> Any:
    """Return actions of one step, (rows, ...), by role if the space is a Dict.

    Args:
        space: action space of one world or row.
        rows: worlds or rows.
        generator: source of random numbers.
        beyond: numbers of a Box may exceed its bounds.
    """
    if isinstance(space, Dict):
        return {role: random_actions(part, rows, generator, beyond) for role, part in space.items()}
    shape = (rows, *(space.shape or ()))
    if isinstance(space, Box):
        if beyond:
            return generator.normal(0, 2, shape).astype(np.float32)
        low, high = np.maximum(space.low, -1e3), np.minimum(space.high, 1e3)
        return generator.uniform(low, high, shape).astype(np.float32)
    choices = np.broadcast_to(space.nvec if hasattr(space, "nvec") else space.n, space.shape or ())
    return generator.integers(0, choices, shape, np.int32)


def stacked(actions: list[Any]) -> Any:
    """Return actions of several steps, with the leading axis steps, from those of each."""
    return tree_map(lambda *arrays: np.stack(arrays), *actions)


def action_table(env: GpuVectorEnv[np.ndarray], num_steps: int, seed: int, beyond: bool = True) -> Any:
    """Return random actions of several steps of an env, with the leading axes steps and envs."""
    generator = np.random.default_rng(seed)
    space, rows = env.single_action_space, env.num_envs
    return stacked([random_actions(space, rows, generator, beyond) for _ in range(num_steps)])
