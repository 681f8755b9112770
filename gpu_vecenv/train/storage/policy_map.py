"""Assignment of policies to rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.errors import PolicyMapError

RANDOM = "random"
"""Reserved name of the policy that acts uniformly at random and is never updated."""


def is_random(name: str) -> bool:
    """True for the name of a policy that acts at random: ``random``, or ``random/ROLE`` if arrays are by role."""
    return name.partition("/")[0] == RANDOM


def assign_rows(
    role_rows: Mapping[str, slice], policy_map: Mapping[str, str] | None, groups: Sequence[Group] = ()
) -> dict[str, list[slice]]:
    """Group rows by policy.

    Args:
        role_rows: role name to the contiguous rows of that role.
        policy_map: role name to policy name; roles with the same name share the policy. None gives each
            role a policy of its own, named after it.
        groups: the env's groups. If they are roles with spaces of their own, ``random`` stands for one policy a role, which is
            named ``random/ROLE``.

    Returns:
        Policy name to its rows, in row order; slices of adjacent roles are joined.

    Raises:
        PolicyMapError: a role is unknown or has no policy, a name is not a non-empty string, or roles with different spaces
            have the same policy.
    """
    roles = list(role_rows)
    mapping = {role: role for role in roles} if policy_map is None else dict(policy_map)
    unknown = [role for role in mapping if role not in role_rows]
    if unknown:
        raise PolicyMapError(f"policy_map: expected roles out of {roles}, got unknown {unknown}")
    missing = [role for role in roles if role not in mapping]
    if missing:
        raise PolicyMapError(
            f"policy_map: expected a policy for every role of {roles}, got none for {missing}"
        )
    assignment: dict[str, list[slice]] = {}
    spaces = {group.role: group for group in groups if group.role}
    first: dict[str, Group] = {}
    for role, rows in sorted(role_rows.items(), key=lambda item: item[1].start):
        name = mapping[role]
        if not isinstance(name, str) or not name or "/" in name:
            raise PolicyMapError(
                f"policy_map[{role!r}]: expected a non-empty policy name without '/', got {name!r}"
            )
        if role in spaces:
            name = f"{RANDOM}/{role}" if name == RANDOM else name
            _require_equal_spaces(name, first.setdefault(name, spaces[role]), spaces[role])
        slices = assignment.setdefault(name, [])
        if slices and slices[-1].stop == rows.start:
            slices[-1] = slice(slices[-1].start, rows.stop)
        else:
            slices.append(slice(rows.start, rows.stop))
    return assignment


def _require_equal_spaces(name: str, group: Group, other: Group) -> None:
    """Raise PolicyMapError unless agents of both roles observe and act alike."""
    mine, others = ((g.observation, g.shared, g.action, g.masked) for g in (group, other))
    if mine != others:
        raise PolicyMapError(
            f"policy_map: expected roles with equal spaces for the policy {name!r}, got {_spaces(group)}; {_spaces(other)}"
        )


def _spaces(group: Group) -> str:
    shared = "" if group.shared is None else f" and shared {group.shared}"
    masked = f", masked entries {list(group.masked)}" if group.masked else ""
    return f"{group.role} with observations {group.observation}{shared}, actions {group.action}{masked}"


def trainable_policies(assignment: Mapping[str, list[slice]], frozen: tuple[str, ...]) -> list[str]:
    """Return the names of the policies that learn.

    Raises:
        PolicyMapError: ``frozen`` names a policy that no role uses, or no policy is left to train.
    """
    unknown = [name for name in frozen if name not in assignment]
    if unknown:
        raise PolicyMapError(f"frozen: expected policies out of {list(assignment)}, got unknown {unknown}")
    names = [name for name in assignment if not is_random(name) and name not in frozen]
    if not names:
        raise PolicyMapError(
            f"expected at least one policy to train, got policies {list(assignment)}, frozen {list(frozen)}"
        )
    return names


@dataclass(frozen=True)
class Members:
    """Agents ``lo`` to ``hi - 1`` of a role, in every world."""

    role: str
    lo: int
    hi: int


def assign_members(
    counts: Mapping[str, int], policy_map: Mapping[str, str] | None, groups: Sequence[Group] = ()
) -> dict[str, list[Members]]:
    rows, first = {}, 0
    for role, count in counts.items():
        rows[role] = slice(first, first + count)
        first += count
    assign_rows(rows, policy_map, groups)
    found = {}
    for role, count in counts.items():
        name = role if policy_map is None else policy_map[role]
        if name == RANDOM and any(g.role for g in groups):
            name = f"{RANDOM}/{role}"
        found.setdefault(name, []).append(Members(role, 0, count))
    return found
