"""Slabs of one group of agents: observations, masks and actions, which differ in form from role to role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.returns.effects import Limits

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def group_rows(env: GpuVectorEnv) -> list[tuple[Group, slice]]:
    """Return each group of an env with its rows: those of a role, or all if arrays are not by role."""
    everyone = slice(0, env.num_worlds * env.num_agents)
    return [(group, env.role_rows[group.role] if group.role else everyone) for group in env.layout.groups]


@dataclass
class Observations:
    """Observations of n rows in S steps. A part that the agents of a world observe alike is stored once a world."""

    own: Tensor
    """float32 (S, n, *shape)."""
    shared: Tensor | None = None
    """float32 (S, N, *shape of the shared part), for rows ordered by world; None without a shared part."""

    def at(self, step: int) -> Observations:
        """Return the observations of a step, without the axis S."""
        return Observations(self.own[step], None if self.shared is None else self.shared[step])


@dataclass
class GroupSlabs:
    """T steps of a group's n rows. The env writes obs, masks, flags of effect and final_obs, the collector the rest."""

    obs: Observations
    """T + 1 steps; slot t holds the observations before step t."""
    action: Tensor
    """int32 or float32 (T, n) or (T, n, k)."""
    log_prob: Tensor
    """float32 (T, n), of the actions when they were taken."""
    mask: Tensor | None = None
    """bool (T + 1, n, M), True where policies may choose, of the entries ``Group.limited``; slot t holds the masks of step t.
    None without masks. The env writes it, unless there are flags of effect; then ``limit()`` writes slots 0 to T - 1."""
    final_obs: Observations | None = None
    """T steps, valid where an episode ended; None if time limits are not bootstrapped."""
    effects: Tensor | None = None
    """bool (T + 1, n, G), flags of effect of the env; None without."""
    env_mask: Tensor | None = None
    """bool (T + 1, n, masks of the env), as the env writes them; None without masks or without flags of effect."""
    final_mask: Tensor | None = None
    """bool (T, n, M), ``mask`` of ``final_obs``, valid where an episode ended; None if no algorithm reads it. The env writes it,
    unless there are flags of effect; then ``limit_final()`` does."""
    final_effects: Tensor | None = None
    """bool (T, n, G), ``effects`` of ``final_obs``; None without ``final_mask`` or without flags of effect."""
    env_final_mask: Tensor | None = None
    """bool (T, n, masks of the env), ``env_mask`` of ``final_obs``; None without ``final_mask`` or without ``env_mask``."""
    limits: Limits | None = None
    """Writer of the masks of policies; None without flags of effect."""

    @classmethod
    def allocate(
        cls, group: Group, num_rows: int, num_steps: int, with_final_obs: bool, with_final_mask: bool, device: torch.device
    ) -> GroupSlabs:
        """Allocate zeros.

        Args:
            group: spaces of the rows.
            num_rows: n.
            num_steps: T.
            with_final_obs: also keep final observations.
            with_final_mask: also keep the masks of final observations.
            device: device of the slabs.
        """

        def slab(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        def observations(steps: int) -> Observations:
            shared = None if group.shared is None else slab(steps, num_rows // group.count, *group.shared.shape)
            return Observations(slab(steps, num_rows, *(group.observation.shape or ())), shared)

        def flags(length: int, exists: object, extra: int = 1) -> Tensor | None:
            return slab(num_steps + extra, num_rows, length, dtype=torch.bool) if exists else None

        action_type = torch.float32 if group.continuous else torch.int32
        return cls(
            obs=observations(num_steps + 1),
            action=slab(num_steps, num_rows, *(group.action.shape or ()), dtype=action_type),
            log_prob=slab(num_steps, num_rows),
            mask=flags(sum(group.limited_choices), group.limited),
            final_obs=observations(num_steps) if with_final_obs else None,
            effects=flags(group.num_effects, group.effects),
            env_mask=flags(group.num_choices, group.effects and group.masked),
            final_mask=flags(sum(group.limited_choices), with_final_mask and group.limited, 0),
            final_effects=flags(group.num_effects, with_final_mask and group.effects, 0),
            env_final_mask=flags(group.num_choices, with_final_mask and group.effects and group.masked, 0),
            limits=Limits(group, device) if group.effects else None,
        )

    @property
    def num_rows(self) -> int:
        """Number of rows, n."""
        return self.log_prob.shape[1]

    def limit(self, step: int) -> None:
        """Write the masks of policies in a step, if there are flags of effect."""
        if self.limits is not None and self.mask is not None and self.effects is not None:
            self.limits.write(self.mask[step], None if self.env_mask is None else self.env_mask[step], self.effects[step])

    def limit_final(self) -> None:
        """Write the masks of policies at final observations, if there are flags of effect."""
        if self.limits is not None and self.final_mask is not None and self.final_effects is not None:
            arrays = (self.final_mask, self.env_final_mask, self.final_effects)
            out, mask, effects = (None if x is None else x.flatten(0, 1) for x in arrays)
            assert out is not None and effects is not None
            self.limits.write(out, mask, effects)

    @property
    def written_mask(self) -> Tensor | None:
        """Masks that the env writes."""
        return self.mask if self.effects is None else self.env_mask

    def _saved_slabs(self) -> dict[str, Tensor]:
        """Return the slabs of which a checkpoint has the last slot."""
        arrays = {"obs": self.obs.own, "shared_obs": self.obs.shared, "mask": self.written_mask, "effects": self.effects}
        return {name: slab for name, slab in arrays.items() if slab is not None}

    def last(self) -> dict[str, Tensor]:
        """Return copies of the observations, masks and flags of effect of slot T, for a checkpoint."""
        return {name: slab[-1].clone() for name, slab in self._saved_slabs().items()}

    def restore(self, last: dict[str, Tensor]) -> None:
        """Overwrite slot T with what ``last()`` returned."""
        for name, slab in self._saved_slabs().items():
            slab[-1].copy_(last[name])

    def copy_to_end(self) -> None:
        """Copy observations, masks and flags of effect of slot 0, where a reset writes them, to slot T."""
        for slab in self._saved_slabs().values():
            slab[-1].copy_(slab[0])

    def bound(self, group: Group) -> dict[str, Any]:
        """Return the slabs that the env writes, by their names in ``bind()``, in the shapes of the env.

        Args:
            group: spaces of the rows. The env's arrays have the axes (N, agents of the group) in place of rows if they are by
                role.
        """

        def rows(slab: Tensor) -> Tensor:
            return slab.unflatten(1, (-1, group.count)) if group.role else slab

        def observations(slabs: Observations) -> Any:
            own_part = rows(slabs.own)
            return own_part if slabs.shared is None else {"shared": slabs.shared, "own": own_part}

        views: dict[str, Any] = {"obs": observations(self.obs)}
        final_mask = self.final_mask if self.final_effects is None else self.env_final_mask
        for name, flags in (
            ("action_mask", self.written_mask), ("action_effects", self.effects), ("final_action_mask", final_mask),
            ("final_action_effects", self.final_effects),
        ):  # fmt: skip
            if flags is not None:
                views[name] = rows(flags)
        if self.final_obs is not None:
            views["final_obs"] = observations(self.final_obs)
        return views
