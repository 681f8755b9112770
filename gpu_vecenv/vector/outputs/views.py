"""Shapes and spaces of the two views of an env: worlds, and rows of agents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space

from gpu_vecenv.errors import ParameterError, RoleSpacesError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.spec.validation import abbreviated, whole_number

MAX_WORLDS = 2**31 - 1
"""World ids are below 2**31."""


@dataclass(frozen=True)
class View:
    """Shapes and spaces of ``num_worlds`` worlds in one view. With one agent in a world, both views are the same."""

    layout: Layout
    num_worlds: int
    by_agent: bool

    @cached_property
    def flat(self) -> bool:
        """True if an env is one agent's row. Then reward and agent reward are one array."""
        return self.by_agent or self.layout.num_agents == 1

    @cached_property
    def num_envs(self) -> int:
        """Length of the leading axis."""
        return self.num_worlds * self.layout.num_agents if self.by_agent else self.num_worlds

    @cached_property
    def lead(self) -> tuple[int, ...]:
        """Leading axes of arrays with an entry for each agent: ``(R,)``, or ``(N, A)`` in the worlds view of several agents."""
        return (self.num_envs,) if self.flat else (self.num_worlds, self.layout.num_agents)

    def group_lead(self, group: Group) -> tuple[int, ...]:
        """Leading axes of the arrays of a group: ``lead``, or ``(N, agents of the role)``."""
        return (self.num_worlds, group.count) if group.role else self.lead

    @cached_property
    def single_observation_space(self) -> Space:
        """Observation space of one env of this view; a Dict by role if roles have spaces of their own."""
        groups = self.layout.groups
        if not self.layout.by_role:
            return self._of_agents(groups[0].observation, self.layout.num_agents)
        spaces: dict[str, Space] = {}
        for group in groups:
            own_space = self._of_agents(group.observation, group.count)
            spaces[group.role] = own_space if group.shared is None else Dict({"shared": group.shared, "own": own_space})
        return Dict(spaces)

    @cached_property
    def single_action_space(self) -> Space:
        """Action space of one env of this view; a Dict by role if roles have spaces of their own."""
        groups = self.layout.groups
        if not self.layout.by_role:
            return self._of_agents(groups[0].action, self.layout.num_agents)
        return Dict({group.role: self._of_agents(group.action, group.count) for group in groups})

    def _of_agents(self, space: Space, agents: int) -> Space:
        """Space of an array with one entry for each agent."""
        if self.flat and not self.layout.by_role:
            return space
        if isinstance(space, Discrete):
            return MultiDiscrete(np.full(agents, space.n))
        if isinstance(space, MultiDiscrete):
            return MultiDiscrete(np.tile(space.nvec, (agents, *(1 for _ in space.shape))))
        if isinstance(space, Box):
            shape = (agents, *space.shape)
            return Box(np.broadcast_to(space.low, shape), np.broadcast_to(space.high, shape), dtype=np.float32)
        raise ParameterError(
            f"{self.layout.spec.name}: the action space must be Discrete, MultiDiscrete or Box, got {type(space).__name__}."
        )

    @cached_property
    def role_rows(self) -> dict[str, slice]:
        """Rows of each role in the agents view."""
        rows, first = {}, 0
        for role, count in self.layout.role_counts.items():
            rows[role] = slice(first, first + count * self.num_worlds)
            first += count * self.num_worlds
        return rows

    @cached_property
    def world_of_env(self) -> list[int]:
        """World of each env, in the order of the leading axis."""
        worlds = range(self.num_worlds)
        counts = self.layout.role_counts.values() if self.by_agent else (1,)
        return [world for count in counts for world in worlds for _ in range(count)]

    def world_mask(self, mask: np.ndarray) -> np.ndarray:
        """Return a mask over envs, bool (num_envs,), as a mask over worlds, bool (num_worlds,).

        Raises:
            ParameterError: rows of one world differ, in the agents view.
        """
        if not self.by_agent:
            return mask
        by_role = [mask[rows].reshape(self.num_worlds, -1) for rows in self.role_rows.values()]
        return one_flag_a_world(np.concatenate(by_role, axis=1))


def one_flag_a_world(by_world: np.ndarray) -> np.ndarray:
    """Return a mask over rows, bool (num_worlds, rows of a world), as a mask over worlds, bool (num_worlds,).

    Raises:
        ParameterError: rows of one world differ.
    """
    mixed = by_world.any(axis=1) != by_world.all(axis=1)
    if mixed.any():
        raise ParameterError(
            "reset_mask must be the same for all agents of a world, because worlds are reset as a whole; "
            f"world {int(np.argmax(mixed))} is mixed."
        )
    return by_world[:, 0]


def count_worlds(num_envs: int, num_worlds: int | None, layout: Layout, by_agent: bool) -> int:
    """Return the number of worlds for the ``num_envs`` and ``num_worlds`` of ``make_vec``.

    Raises:
        ParameterError: not a positive integer, more than ``MAX_WORLDS`` worlds, two different sizes, or rows that do not
            fill whole worlds.
        RoleSpacesError: the agents view of an env whose arrays are by role.
    """
    if by_agent and layout.by_role:
        roles = " and ".join(layout.role_counts)
        raise RoleSpacesError(
            f'{layout.spec.name}: {roles} have spaces of their own, so their rows do not fit one array; expected view="worlds", '
            'got view="agents". RoleRows(env, role, others={...}) makes the rows of one role an env.'
        )
    agents = layout.num_agents if by_agent else 1
    envs = _within("num_envs", num_envs, agents * MAX_WORLDS)
    if num_worlds is not None:
        worlds = _within("num_worlds", num_worlds, MAX_WORLDS)
        if envs not in (1, worlds * agents):
            raise ParameterError(f"num_worlds={worlds} makes num_envs={worlds * agents}, got num_envs={envs}; give one of them.")
        return worlds
    if envs % agents == 0:
        return envs // agents
    if envs == 1:
        raise ParameterError(
            f'view="agents" counts rows of agents, {agents} a world: give num_worlds=W, or num_envs={agents} for one world.'
        )
    below, above = envs // agents * agents, -(-envs // agents) * agents
    nearest = f"{above}" if below == 0 else f"{below} or {above}"
    raise ParameterError(
        f'view="agents" counts rows of agents, {agents} a world: num_envs must be a multiple of {agents} ({nearest}), got {envs}.'
    )


def _within(name: str, value: object, most: int) -> int:
    number = whole_number(value)
    if number is None or not 1 <= number <= most:
        raise ParameterError(f"{name} must be an integer from 1 to {most}, got {abbreviated(value)}.")
    return number
