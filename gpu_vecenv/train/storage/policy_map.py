"""Assignment of policies to agents, and to their rows."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.errors import PolicyMapError

RANDOM = "random"
"""Reserved name of the policy that acts uniformly at random and is never updated."""


def is_random(name: str) -> bool:
    """True for the name of a policy that acts at random: ``random``, or ``random/ROLE`` if arrays are by role."""
    return name.partition("/")[0] == RANDOM


class Members(NamedTuple):
    """Agents of one role in each world: ``lo`` to ``hi - 1``, counted from 0 in the role.

    In arrays by role, (N, A_r, ...), they are ``[:, lo:hi]``.
    """

    role: str
    lo: int
    hi: int


_KEY = re.compile(r"(?P<role>.+)\[(?P<lo>[0-9]{1,9}):(?P<hi>[0-9]{1,9})\]")


def assign_members(
    role_counts: Mapping[str, int], policy_map: Mapping[str, str] | None, groups: Sequence[Group] = ()
) -> dict[str, list[Members]]:
    """Group agents by policy.

    Args:
        role_counts: role name to the number of agents in a world, in the order of the env.
        policy_map: ``role`` or ``role[lo:hi]`` to policy name; the same name stands for one policy. None gives each role a policy
            of its own, named after it.
        groups: the env's groups. If they are roles with spaces of their own, ``random`` stands for one policy a role, which is
            named ``random/ROLE``.

    Returns:
        Policy name to its agents, in the order of the roles and of the agents in them; adjacent ranges are joined.

    Raises:
        PolicyMapError: a role is unknown; an agent has no policy, or two; a name is not a non-empty string; or roles with
            different spaces have the same policy.
    """
    ranges: dict[str, list[tuple[int, int, str, str]]] = {role: [] for role in role_counts}
    for key, name in ({role: role for role in role_counts} if policy_map is None else policy_map).items():
        role, lo, hi = _parse(key, role_counts)
        if not isinstance(name, str) or not name or "/" in name:
            raise PolicyMapError(f"policy_map[{key!r}]: expected a non-empty policy name without '/', got {name!r}")
        ranges[role].append((lo, hi, key, name))
    assignment: dict[str, list[Members]] = {}
    spaces = {group.role: group for group in groups if group.role}
    first: dict[str, Group] = {}
    for role, count in role_counts.items():
        ranges[role].sort()
        _require_cover(role, count, ranges[role])
        for lo, hi, _, name in ranges[role]:
            if role in spaces:
                name = f"{RANDOM}/{role}" if name == RANDOM else name
                _require_equal_spaces(name, first.setdefault(name, spaces[role]), spaces[role])
            members = assignment.setdefault(name, [])
            if members and members[-1].role == role and members[-1].hi == lo:
                members[-1] = members[-1]._replace(hi=hi)
            else:
                members.append(Members(role, lo, hi))
    return assignment


def with_changes(policy_map: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return the policy map with other policies for the roles that ``changes`` names.

    A role in ``changes`` replaces all entries of that role, those of ranges, too.
    """
    changed = {role_of(key) for key in changes}
    return {**{key: name for key, name in policy_map.items() if role_of(key) not in changed}, **changes}


def role_of(key: str) -> str:
    """Return the role of a key of a policy map, which may name a range of its agents."""
    match = _KEY.fullmatch(str(key))
    return key if match is None else match["role"]


def _parse(key: str, role_counts: Mapping[str, int]) -> tuple[str, int, int]:
    """Return the role and the range of a key.

    Raises:
        PolicyMapError: the role is unknown, or the range holds no agent or agents that the role does not have.
    """
    match = _KEY.fullmatch(str(key))
    role = key if match is None else match["role"]
    if role not in role_counts:
        raise PolicyMapError(
            f"policy_map: expected roles out of {list(role_counts)}, or a range of one such as "
            f"{next(iter(role_counts))}[0:1], got {key!r}"
        )
    count = role_counts[role]
    lo, hi = (0, count) if match is None else (int(match["lo"]), int(match["hi"]))
    if not lo < hi <= count:
        raise PolicyMapError(f"policy_map[{key!r}]: expected a range within [0:{count}], the agents of {role}, got [{lo}:{hi}]")
    return role, lo, hi


def _require_cover(role: str, count: int, ranges: Sequence[tuple[int, int, str, str]]) -> None:
    """Raise PolicyMapError unless the sorted ranges hold every agent of the role once."""
    if not ranges:
        raise PolicyMapError(f"policy_map: expected a policy for every role, got none for {role!r}")
    end, before = 0, ""
    for lo, hi, key, _ in ranges:
        if lo < end:
            raise PolicyMapError(f"policy_map: expected one policy for each agent, got {before!r} and {key!r}, which overlap")
        if lo > end:
            break
        end, before = hi, key
    if end < count:
        missing = min((lo for lo, *_ in ranges if lo >= end), default=count)
        raise PolicyMapError(f"policy_map: expected a policy for every agent, got none for {role}[{end}:{missing}]")


def _require_equal_spaces(name: str, group: Group, other: Group) -> None:
    """Raise PolicyMapError unless agents of both roles observe and act alike."""
    form, other_form = ((g.observation, g.shared, g.action, g.masked, g.effects) for g in (group, other))
    if form != other_form:
        raise PolicyMapError(
            f"policy_map: expected roles with equal spaces for the policy {name!r}, got {_spaces(group)}; {_spaces(other)}"
        )


def _spaces(group: Group) -> str:
    shared = "" if group.shared is None else f" and shared {group.shared}"
    masked = f", masked entries {list(group.masked)}" if group.masked else ""
    effects = f", effects {dict(group.effects)}" if group.effects else ""
    return f"{group.role} with observations {group.observation}{shared}, actions {group.action}{masked}{effects}"


def trainable_policies(policies: Iterable[str], frozen: tuple[str, ...], scripted: Container[str] = ()) -> list[str]:
    """Return the names of the policies that learn.

    Args:
        policies: names of the policies of a run.
        frozen: policies that act and do not learn.
        scripted: names of policies without weights, which may be among them.

    Raises:
        PolicyMapError: ``frozen`` names a policy that no role uses, or no policy is left to train.
    """
    every = list(policies)
    unknown = [name for name in frozen if name not in every]
    if unknown:
        raise PolicyMapError(f"frozen: expected policies out of {every}, got unknown {unknown}")
    names = [name for name in every if not is_random(name) and name not in frozen and name not in scripted]
    if not names:
        raise PolicyMapError(f"expected at least one policy to train, got policies {every}, frozen {list(frozen)}")
    return names
