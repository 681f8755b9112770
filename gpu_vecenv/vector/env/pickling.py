"""Copies of a vector env: pickling, and the functions of Python's module ``copy``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from gpu_vecenv.backend.private import generator_of
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.vector.worlds.worlds import Worlds

_SPACES = ("observation_space", "action_space", "single_observation_space", "single_action_space")
CARRIED = ("spec", "metadata", *_SPACES)
"""Attributes that a copy takes over if the original has them. Spaces hold the generators of their samples."""


class Copied:
    """Base of envs, wrappers and adapters: ``copy.copy`` returns a deep copy, because two of them must not share worlds."""

    def __copy__(self) -> Any:
        """The same as a deep copy."""
        return copy.deepcopy(self)


def carried(env: Any) -> dict[str, Any]:
    """Return the attributes of an env that its copy takes over."""
    return {name: vars(env)[name] for name in CARRIED if name in vars(env)} | generator_of(env)


def carry_to(env: Any, attributes: Mapping[str, Any]) -> None:
    """Set the attributes that ``carried()`` returned for the original of an env."""
    for name, value in attributes.items():
        setattr(env, name, value)


def worlds_to_host(worlds: Worlds, started: bool) -> dict[str, Any]:
    """Return all that a copy of worlds depends on, on the host: reset pool, reset options, state and last observation.

    Args:
        worlds: the original.
        started: True after the first reset; worlds have no state before it.
    """
    host = {
        "pool": worlds.pool.get(None),
        "options": worlds.memory.to_numpy(worlds.arguments.reset_options),
        "started": None,
    }
    if started:
        # The last observation may differ from that of the state: an agent of Tag observes the step that tags it.
        last = [worlds.output_memory.to_numpy(array) for array in worlds.outputs.last_carried() or ()]
        host["started"] = worlds.state.on_host(), last
    return host


def worlds_from_host(worlds: Worlds, host: Mapping[str, Any]) -> bool:
    """Make new worlds continue from what ``worlds_to_host()`` returned; return its ``started``."""
    memory = worlds.memory
    memory.assign(worlds.arguments.reset_options, memory.from_numpy(host["options"]))
    if host["pool"]:
        worlds.pool.set(host["pool"])
    if host["started"] is None:
        return False
    fields, last = host["started"]
    worlds.set_state(fields)
    memory = worlds.output_memory
    for array, values in zip(worlds.outputs.last_carried() or (), last, strict=True):
        memory.assign(array, memory.from_numpy(values))
    return True


def make_with_keywords(kind: Callable[..., Any], env_spec: EnvSpec, keywords: dict[str, Any]) -> Any:
    """Make an env; pickle stores the name of this function."""
    return kind(env_spec, **keywords)
