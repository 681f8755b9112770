"""Assignment of policies to rows."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_vecenv.train.errors import PolicyMapError

RANDOM = "random"
"""Reserved name of the policy that acts uniformly at random and is never updated."""


def assign_rows(
    role_rows: Mapping[str, slice], policy_map: Mapping[str, str] | None
) -> dict[str, list[slice]]:
    """Group the rows of the agents view by policy.

    Args:
        role_rows: role name to the contiguous rows of that role.
        policy_map: role name to policy name; roles with the same name share the policy. None gives each
            role a policy of its own, named after it.

    Returns:
        Policy name to its rows, in row order; slices of adjacent roles are joined.

    Raises:
        PolicyMapError: a role is unknown or has no policy, or a name is not a non-empty string.
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
    for role, rows in sorted(role_rows.items(), key=lambda item: item[1].start):
        name = mapping[role]
        if not isinstance(name, str) or not name or "/" in name:
            raise PolicyMapError(
                f"policy_map[{role!r}]: expected a non-empty policy name without '/', got {name!r}"
            )
        slices = assignment.setdefault(name, [])
        if slices and slices[-1].stop == rows.start:
            slices[-1] = slice(slices[-1].start, rows.stop)
        else:
            slices.append(slice(rows.start, rows.stop))
    return assignment


def trainable_policies(assignment: Mapping[str, list[slice]], frozen: tuple[str, ...]) -> list[str]:
    """Return the names of the policies that learn.

    Raises:
        PolicyMapError: ``frozen`` names a policy that no role uses, or no policy is left to train.
    """
    unknown = [name for name in frozen if name not in assignment]
    if unknown:
        raise PolicyMapError(f"frozen: expected policies out of {list(assignment)}, got unknown {unknown}")
    names = [name for name in assignment if name != RANDOM and name not in frozen]
    if not names:
        raise PolicyMapError(
            f"expected at least one policy to train, got policies {list(assignment)}, frozen {list(frozen)}"
        )
    return names
