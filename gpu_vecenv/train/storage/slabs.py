"""Slabs of one group of agents: observations, masks and actions, which differ in form from role to role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpu_vecenv.spec.roles import Group

if TYPE_CHECKING:
    from gpu_vecenv.vector.vector_env import GpuVectorEnv


def group_rows(env: GpuVectorEnv) -> list[tuple[Group, slice]]:
    """Return each group of an env with its rows: those of a role, or all if arrays are not by role."""
    everyone = slice(0, env.num_worlds * env.num_agents)
    return [(group, env.role_rows[group.role] if group.role else everyone) for group in env.layout.groups]


@dataclass
class Observations:
    """Observations of n rows in S steps. A part that the agents of a world observe alike is stored once a world."""

    own: Tensor
    """float32 (S, n, P)."""
    shared: Tensor | None = None
    """float32 (S, N, Q), for rows ordered by world; None without a shared part."""

    @property
    def num_rows(self) -> int:
        """Number of rows, n."""
        return self.own.shape[1]

    def of(self, steps: int | slice, slices: Sequence[slice]) -> Tensor:
        """Return the observations of some rows, float32 (..., Q + P): a view for one slice without a shared part, else a copy."""
        own = beside([self.own[steps][..., rows, :] for rows in slices])
        if self.shared is None:
            return own
        by_world = self.shared[steps].unsqueeze(-2)
        shared = by_world.expand(*by_world.shape[:-2], self.num_rows // by_world.shape[-3], -1).flatten(-3, -2)
        return torch.cat((beside([shared[..., rows, :] for rows in slices]), own), dim=-1)

    def chosen(self, index: Tensor) -> Tensor:
        """Return observations float32 (B, Q + P) by their int64 (B,) indices into the S * n rows of all steps."""
        own = self.own.flatten(0, 1)[index]
        if self.shared is None:
            return own
        rows_of_world = self.num_rows // self.shared.shape[1]
        return torch.cat((self.shared.flatten(0, 1)[index // rows_of_world], own), dim=-1)


@dataclass
class GroupSlabs:
    """T steps of a group's n rows. The env writes obs, mask and final_obs, the collector the rest."""

    obs: Observations
    """T + 1 steps; slot t holds the observations before step t."""
    action: Tensor
    """int32 or float32 (T, n) or (T, n, k)."""
    log_prob: Tensor
    """float32 (T, n), of the actions when they were taken."""
    mask: Tensor | None = None
    """bool (T + 1, n, M), True where a choice is allowed; slot t holds the masks of step t. None without masks."""
    final_obs: Observations | None = None
    """T steps, valid where an episode ended; None if time limits are not bootstrapped."""

    @classmethod
    def allocate(cls, group: Group, num_rows: int, num_steps: int, with_final_obs: bool, device: torch.device) -> GroupSlabs:
        """Allocate zeros.

        Args:
            group: spaces of the rows.
            num_rows: n.
            num_steps: T.
            with_final_obs: also keep final observations.
            device: device of the slabs.
        """

        def slab(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        def observations(steps: int) -> Observations:
            shared = None if group.shared is None else slab(steps, num_rows // group.count, group.num_shared)
            return Observations(slab(steps, num_rows, group.num_features), shared)

        action_type = torch.float32 if group.continuous else torch.int32
        return cls(
            obs=observations(num_steps + 1),
            action=slab(num_steps, num_rows, *(group.action.shape or ()), dtype=action_type),
            log_prob=slab(num_steps, num_rows),
            mask=slab(num_steps + 1, num_rows, group.num_choices, dtype=torch.bool) if group.masked else None,
            final_obs=observations(num_steps) if with_final_obs else None,
        )

    @property
    def num_rows(self) -> int:
        """Number of rows, n."""
        return self.obs.num_rows

    def masks(self, step: int, rows: slice) -> Tensor | None:
        """Return the masks of some rows before a step, bool (n', M); None without masks."""
        return None if self.mask is None else self.mask[step, rows]

    def kept(self) -> dict[str, Tensor]:
        """Return copies of the observations and masks of slot 0, for a checkpoint."""
        arrays = {"obs": self.obs.own, "shared_obs": self.obs.shared, "mask": self.mask}
        return {name: slab[0].clone() for name, slab in arrays.items() if slab is not None}

    def restore(self, kept: dict[str, Tensor]) -> None:
        """Overwrite slot 0 with what ``kept()`` returned."""
        for slab, name in ((self.obs.own, "obs"), (self.obs.shared, "shared_obs"), (self.mask, "mask")):
            if slab is not None:
                slab[0].copy_(kept[name])

    def bound(self, group: Group, by_world: bool) -> dict[str, Any]:
        """Return the slabs that the env writes, by their names in ``bind()``, in the shapes of the env.

        Args:
            group: spaces of the rows.
            by_world: the env's arrays have the axes (N, agents of the group) in place of rows.
        """
        lead = (-1, group.count) if by_world else (self.num_rows,)

        def observations(slabs: Observations) -> Any:
            own = slabs.own.view(len(slabs.own), *lead, *group.observation.shape)
            if slabs.shared is None or group.shared is None:
                return own
            return {"shared": slabs.shared.view(*slabs.shared.shape[:2], *group.shared.shape), "own": own}

        found: dict[str, Any] = {"obs": observations(self.obs)}
        if self.mask is not None:
            found["action_mask"] = self.mask.view(len(self.mask), *lead, group.num_choices)
        if self.final_obs is not None:
            found["final_obs"] = observations(self.final_obs)
        return found


def side_by_side(groups: Sequence[GroupSlabs]) -> GroupSlabs:
    """Return a copy of the rows of groups with equal spaces, as the rows of one group."""

    def joined(slabs: Sequence[Any]) -> Any:
        return None if slabs[0] is None else torch.cat(list(slabs), dim=1)

    def observations(slabs: Sequence[Any]) -> Any:
        return None if slabs[0] is None else Observations(joined([obs.of(slice(None), [slice(None)]) for obs in slabs]))

    return GroupSlabs(
        obs=observations([group.obs for group in groups]),
        action=joined([group.action for group in groups]),
        log_prob=joined([group.log_prob for group in groups]),
        mask=joined([group.mask for group in groups]),
        final_obs=observations([group.final_obs for group in groups]),
    )


def beside(slabs: Sequence[Tensor]) -> Tensor:
    """Return rows (..., n, F) side by side; those of one array are returned as they are."""
    return slabs[0] if len(slabs) == 1 else torch.cat(list(slabs), dim=-2)
