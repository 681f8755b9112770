"""Roles of agents: their numbers, and the spaces of roles that observe or do different things."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from gpu_vecenv.errors import SpecError
from gpu_vecenv.spec.computed import Effects, action_space, effect_groups, masked_entries, observation_box, result_of
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.validation import checked_keywords, lists_as_tuples

INDEX_DTYPES = ("uint8", "int8", "int16", "int32", "int64")
"""Dtypes of actions that are indices."""


@checked_keywords
@dataclass(frozen=True)
class Role:
    """Agents of one kind.

    If any role has a space of its own, or a shared part, public arrays are dicts by role.

    Args:
        name: identifier of ASCII characters.
        count: number of agents in a world, the name of the int32 parameter that holds it, or a function of the parameters.
        observation: function of the parameters that returns the space of one agent, a ``Box`` of float32; None for that of the
            env.
        action: function that returns the space of one agent: ``Discrete`` or ``MultiDiscrete`` with indices from 0 on, or a
            ``Box`` of float32 or float64; None for that of the env.
        masked: numbers of those entries of an action that have a mask, or a function that returns them: kernels then write, with
            each observation, which choices are allowed.
        effects: groups of entries of an action by name, such as ``{"offer": (0, 1), "answer": range(2, 6)}``, or a function that
            returns them: kernels then write, with each observation, a flag of each group in this order, which is 0 if nothing in
            the next step depends on these entries. Trainers then do not learn from them. An entry is in one group at most; those
            in none always have an effect. The env ignores entries without effect, whatever they hold.
        shared: function that returns the space of what all agents of the role observe alike, which is written once a world;
            ``observation`` is then the space of the rest. A ``Box`` of float32, or None for parameters without a shared part.
        leaving: what happened to an agent that left the game early, such as "caught". A role with this text is judged by the
            number of agents that left; others are judged by their returns. The spec names a field ``alive`` then.
    """

    name: str
    count: str | int | Callable[[Params], int]
    observation: Callable[[Params], Box] | None = None
    action: Callable[[Params], Space] | None = None
    masked: tuple[int, ...] | Callable[[Params], tuple[int, ...]] = ()
    shared: Callable[[Params], Box | None] | None = None
    leaving: str = ""
    effects: Mapping[str, Sequence[int]] | Effects | Callable[[Params], Mapping[str, Sequence[int]]] = ()

    def __post_init__(self) -> None:
        lists_as_tuples(self, "masked")
        if isinstance(self.effects, Mapping):  # a tuple can be hashed
            groups = ((name, tuple(part) if isinstance(part, list | range) else part) for name, part in self.effects.items())
            object.__setattr__(self, "effects", tuple(groups))

    @property
    def number(self) -> str | int:
        """Number of agents as kernels have it: an integer, or the name of a parameter or, for a function, of a size."""
        return f"{self.name}_agents" if callable(self.count) else self.count

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
        effects: names of the groups of entries that have a flag of their effect, and their entries.
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
    effects: Effects = ()

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
    def action_dtype(self) -> str:
        """Smallest dtype that holds an action: float32, uint8, int16 or int32."""
        return smallest_dtype(max(self.choices, default=1)) if not self.continuous else "float32"

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

    @cached_property
    def num_effects(self) -> int:
        """Flags of effect of an agent."""
        return len(self.effects)

    @cached_property
    def limited(self) -> tuple[int, ...]:
        """Numbers of the entries that have a mask or a flag of effect. Masks of policies cover all of them."""
        if not self.effects:
            return self.masked
        return tuple(sorted({*self.masked, *(entry for _, entries in self.effects for entry in entries)}))

    @cached_property
    def limited_choices(self) -> list[int]:
        """Number of choices of each of these entries."""
        return [self.choices[entry] for entry in self.limited]


def smallest_dtype(choices: int) -> str:
    """Return the smallest dtype of ``INDEX_DTYPES`` that holds every index below a number of choices."""
    return next(dtype for dtype in ("uint8", "int16", "int32") if choices - 1 <= np.iinfo(dtype).max)


def group_sizes(group: Role | Group) -> dict[str, str]:
    """Return the names of the sizes of a group, without its prefix, and their meanings."""
    sizes = {
        "num_features": "length of an observation",
        "num_entries": "entries of an action",
        "continuous": "1 if actions are numbers of a box, 0 if they are indices",
    }
    sizes |= {"num_shared": "length of the shared part of observations"} if group.shared is not None else {}
    sizes |= {"num_choices": "length of a mask"} if group.masked else {}
    return sizes | ({"num_effects": "groups of entries with a flag of effect"} if group.effects else {})


def group_of(env: str, role: Role, count: int, params: Params, by_role: bool) -> Group:
    """Return the group of a role whose spaces are given.

    Args:
        env: name of the env, for messages.
        role: the role, with ``observation`` and ``action``.
        count: agents in a world.
        params: resolved parameters.
        by_role: True if public arrays are by role; otherwise the group is that of all agents.

    Raises:
        SpecError: a space that no env can have, or a mask or a flag of effect of an entry that the action does not have, or of a
            box.
    """
    if role.observation is None or role.action is None:
        raise SpecError(f"{env}: expected an observation and an action space of {role.name or 'the env'}, got none.")
    where = f"{env}: role {role.name!r}: " if role.name else f"{env}: "
    shared = result_of(f"{where}shared", role.shared, params) if role.shared is not None else None
    if shared is not None:
        shared = observation_box(f"{where}shared", shared)
    observation = observation_box(f"{where}observation", result_of(f"{where}observation", role.observation, params))
    action = action_space(f"{where}action", result_of(f"{where}action", role.action, params))
    masked = role.masked
    if callable(masked):
        masked = masked_entries(f"{where}masked", result_of(f"{where}masked", masked, params))
    effects = role.effects
    if callable(effects):
        effects = result_of(f"{where}effects", effects, params)
    group = Group(
        role.name if by_role else "", role.prefix, count, observation, action, masked, shared,
        effects=effect_groups(f"{where}effects", effects),
    )  # fmt: skip
    for kind, entries in (("masked entries", group.masked), *((f"effects {name!r}", part) for name, part in group.effects)):
        for entry in entries:
            if not 0 <= entry < len(group.choices):
                raise SpecError(
                    f"{env}: {kind} of {role.name or 'an action'} must lie in 0..{len(group.choices) - 1} and have "
                    f"choices, got {entry} for {group.action}."
                )
    return group
