"""Roles of agents: their numbers, and the spaces of roles that observe or do different things."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.params import Params


@dataclass(frozen=True)
class Role:
    """Agents of one kind.

    ``count`` is their number in a world, or the name of the parameter that holds it. ``observation`` and ``action`` return the
    spaces of one agent; a role without them has those of the env. If any role has a space of its own, or a shared part, public
    arrays are dicts by role.

    ``masked`` are the numbers of those entries of an action that have a mask, or a function of the parameters that returns them:
    kernels then write, with each observation, which choices are allowed. ``shared`` returns the space of what all agents of the
    role observe alike, which is written once a world; ``observation`` is then the space of the rest. It may return None for
    parameters without a shared part.

    ``leaving`` says what happened to an agent that left the game early, such as "caught". A role with this text is judged by the
    number of agents that left; others are judged by their returns.
    """

    name: str
    count: str | int
    observation: Callable[[Params], Box] | None = None
    action: Callable[[Params], Space] | None = None
    masked: tuple[int, ...] | Callable[[Params], tuple[int, ...]] = ()
    shared: Callable[[Params], Box | None] | None = None
    leaving: str = ""

    @property
    def prefix(self) -> str:
        """Text before the names of the role's struct members; empty for the group of all agents."""
        return f"{self.name}_" if self.name else ""


@dataclass(frozen=True)
class Group:
    """Agents whose observations are one array: those of one role, or all agents of an env without spaces by role.

    Attributes:
        role: name of the role; empty for all agents.
        prefix: text before the names of the group's struct members. All agents have that of their role if other parameters give
            the role a shared part.
        count: agents in a world.
        observation: observation space of one agent, without its shared part.
        action: action space of one agent.
        masked: numbers of the entries of an action that have a mask.
        shared: space of the shared part; None without one.
        random_action: space of random actions; None if it is ``action``. Under ``ClipAction``, ``action`` has no bounds.
    """

    role: str
    prefix: str
    count: int
    observation: Box
    action: Space
    masked: tuple[int, ...] = ()
    shared: Box | None = None
    random_action: Space | None = None

    @cached_property
    def num_features(self) -> int:
        """Features of an observation, without the shared part."""
        return int(np.prod(self.observation.shape))

    @cached_property
    def num_shared(self) -> int:
        """Features of the shared part."""
        return int(np.prod(self.shared.shape)) if self.shared is not None else 0

    @cached_property
    def num_entries(self) -> int:
        """Entries of an action."""
        return int(np.prod(self.action.shape or ()))

    @cached_property
    def continuous(self) -> bool:
        """True if actions are numbers of a box, False if they are indices."""
        return isinstance(self.action, Box)

    @cached_property
    def choices(self) -> list[int]:
        """Number of choices of each entry of an action; empty for a box."""
        if isinstance(self.action, Discrete):
            return [int(self.action.n)]
        return [int(n) for n in self.action.nvec.reshape(-1)] if isinstance(self.action, MultiDiscrete) else []

    @cached_property
    def masked_choices(self) -> list[int]:
        """Number of choices of each entry that has a mask. An agent's mask holds those of all these entries, side by side."""
        return [self.choices[entry] for entry in self.masked]

    @cached_property
    def num_choices(self) -> int:
        """Length of an agent's mask."""
        return sum(self.masked_choices)


def group_of(env: str, role: Role, count: int, params: Params, by_role: bool) -> Group:
    """Return the group of a role whose spaces are given.

    Args:
        env: name of the env, for messages.
        role: the role, with ``observation`` and ``action``.
        count: agents in a world.
        params: resolved parameters.
        by_role: True if public arrays are by role; otherwise the group is that of all agents.

    Raises:
        ParameterError: a mask on an entry that the action does not have, or on a box.
    """
    if role.observation is None or role.action is None:
        raise ParameterError(f"{env}: expected an observation and an action space of {role.name or 'the env'}, got none.")
    shared = role.shared(params) if role.shared is not None else None
    masked = tuple(role.masked(params)) if callable(role.masked) else role.masked
    name = role.name if by_role else ""
    group = Group(name, role.prefix, count, role.observation(params), role.action(params), masked, shared)
    for entry in group.masked:
        if not 0 <= entry < len(group.choices):
            raise ParameterError(
                f"{env}: masked entries of {role.name or 'an action'} must lie in 0..{len(group.choices) - 1} and have "
                f"choices, got {entry} for {group.action}."
            )
    return group
