"""Parts of the specs of particle environments: parameters, spaces, state and scratch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space

from gpu_vecenv.spec.fields import Field, Scratch
from gpu_vecenv.spec.params import Param, Params

Number = Callable[[Params], int]

COMMON = (
    Param("max_cycles", 25, "int32", "time limit", "steps", low=1),
    Param("continuous_actions", False, "bool", "True: a Box of a share for each move and each word; False: one index"),
)
"""Parameters of every scenario, its last ones."""

LOCAL_RATIO = Param("local_ratio", 0.5, "float32", "weight of what concerns the agent alone in its reward", low=0, high=1)

TERMINATE_ON_SUCCESS = Param("terminate_on_success", False, "bool", "True: success ends the episode")

NEIGHBOURS = (
    Param("num_agent_neighbors", 0, "int32", "nearest other agents that an agent observes; 0: all, by number", low=0, high=1000),
    Param("num_landmark_neighbors", 0, "int32", "nearest landmarks that an agent observes; 0: all, by number", low=0, high=1000),
)

MOST = 1000
"""Most agents of a role, and landmarks of a kind."""


def number(name: str, default: int, doc: str, low: int = 1) -> Param:
    """Return the parameter of a number of agents or landmarks."""
    return Param(name, default, "int32", doc, low=low, high=MOST)


def row(length: Number) -> Callable[[Params], Box]:
    """Return the function of an observation space: float32 (length,) without bounds."""
    return lambda params: Box(-np.inf, np.inf, (length(params),), np.float32)


def actions(moves: bool = True, words: int = 0) -> Callable[[Params], Space]:
    """Return the function of an action space: that of moves, of words, or of both."""

    def space(params: Params) -> Space:
        if params["continuous_actions"]:
            return Box(0.0, 1.0, (5 * moves + words,), np.float32)
        return Discrete((5 if moves else 1) * max(words, 1))

    return space


def places(landmarks: int | str | Number) -> tuple[Field, ...]:
    """Return the fields of places and velocities, of all agents and of a number of landmarks."""
    return (
        Field("agent_pos", "float32", ("num_agents", 2), "place of an agent: x to the right, y up", "length"),
        Field("agent_vel", "float32", ("num_agents", 2), "velocity of an agent", "length/s"),
        Field("landmark_pos", "float32", (landmarks, 2), "place of a landmark", "length"),
    )


def comm(speakers: int, words: int) -> Field:
    """Return the field of what agents said in the last step."""
    return Field("comm", "float32", (speakers, words), "what an agent said in the last step, zeros before the first")


def goal(landmarks: int | Number, doc: str, shape: tuple[int, ...] = (), name: str = "goal") -> Field:
    """Return the field of the number of a landmark."""

    def last(params: Params) -> int:
        return (landmarks(params) if callable(landmarks) else landmarks) - 1

    return Field(name, "int32", shape, doc, low=0, high=last)


MAX_GATHERED = 2560
"""Most floats of observations that a team gathers in scratch; with more, too few worlds would fit on a multiprocessor."""


def scratch(floats: Number, roles: int, *more: Scratch) -> tuple[Scratch, ...]:
    """Return the arrays in scratch.

    Args:
        floats: floats of the rows of all agents of a world.
        roles: number of roles, each of which needs a margin, see ``gv_gather_margin`` in ``kernels/world_parts.h``.
        more: arrays of the scenario alone.
    """

    def room(params: Params) -> int:
        return floats(params) + 6 * roles - 2 if floats(params) <= MAX_GATHERED else 1

    return (
        Scratch("force", "float32", ("num_agents", 2), "force on an agent"),
        *more,
        Scratch("rows", "float32", room, "gathered observations"),
    )


def slots(params: Params, name: str, count: int) -> int:
    """Return the slots of an observation for a number of others, of which a parameter may limit the number; 0 means all."""
    limit: Any = params[name]
    return int(limit) or count
