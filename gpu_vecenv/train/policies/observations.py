"""Normalisation of observations, whose parts have statistics of their own, and of what critics read once a world."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import torch
from gymnasium.spaces import Box
from numpy import uint8
from torch import Tensor, nn

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.policies.contract import OBSERVATIONS, SHARED, Observation
from gpu_vecenv.train.returns.normalize import RunningNorm


def is_vector(space: Box) -> bool:
    """True for an observation that is a vector of features; False for one of several axes or of bytes, such as an image."""
    return len(space.shape) <= 1 and space.dtype != uint8


class ObservationNorm(nn.Module):
    """Shifts and scales each feature of observations by its running mean and deviation.

    A shared part counts once a world, and an agent's own part once an agent.
    """

    def __init__(self, group: Group):
        """Start without samples.

        Args:
            group: agents whose observations are normalised.
        """
        super().__init__()
        if group.shared is None:
            self.parts = nn.ModuleDict({"own": RunningNorm(group.observation.shape)})
        else:
            shapes = {"shared": group.shared.shape, "own": group.observation.shape}
            self.parts = nn.ModuleDict({part: RunningNorm((math.prod(shape),)) for part, shape in shapes.items()})

    def forward(self, obs: Observation) -> Observation:
        """Return normalised observations of the same form."""
        if isinstance(obs, Tensor):
            return self.parts["own"].forward(obs)  # type: ignore[no-any-return]
        return {part: norm.forward(obs[part]) for part, norm in self.parts.items()}

    def update(self, obs: Observation, valid: Tensor) -> None:
        """Update the statistics, see ``Policy.observe()``."""
        if isinstance(obs, Tensor):
            _update(self.parts["own"], obs, valid)
        else:
            if "shared" in obs:
                _update(self.parts["shared"], obs["shared"], valid.any(-1))  # a world without agents that count may hold anything
            _update(self.parts["own"], obs["own"].flatten(1, 2), valid.flatten(1, 2))


def _update(norm: nn.Module, samples: Tensor, valid: Tensor) -> None:
    if isinstance(norm, RunningNorm):
        norm.update(samples, valid)


class CriticNorm(nn.Module):
    """Shifts and scales what a critic reads once a world.

    Fields of the env's state have running statistics of their own. Observations have those of the agents' observations, and
    agents out of the game are zeros afterwards, which is the mean of the agents in the game.
    """

    def __init__(self, sources: Mapping[str, int], names: tuple[str, ...], group: Group, agents: int):
        """Start without samples.

        Args:
            sources: see ``NetworkSpec``.
            names: see ``Policy.critic_sources``.
            group: agents of the policy.
            agents: a, agents of the policy in a world; of one role, if it acts for several.
        """
        super().__init__()
        self.agents, self.features = agents, math.prod(group.observation.shape)
        self.shared_features = 0 if group.shared is None else math.prod(group.shared.shape)
        # Fields that are neighbours are normalised together.
        kinds = itertools.groupby(names, lambda name: name if name in (OBSERVATIONS, SHARED) else "")
        self.parts = [(kind, sum(sources[name] for name in sources_of_kind)) for kind, sources_of_kind in kinds]
        self.fields = nn.ModuleList(RunningNorm((size,)) for kind, size in self.parts if not kind)

    def forward(self, inputs: Tensor, present: Tensor | None, norm: ObservationNorm | None) -> Tensor:
        """Return normalised inputs, float32 (..., C).

        Args:
            inputs: float32 (..., C), the sources side by side.
            present: bool (..., A), see ``Inputs``.
            norm: statistics of observations; None leaves observations as they are.
        """
        parts: list[Tensor] = []
        fields = iter(self.fields)
        for (kind, _), part in zip(self.parts, inputs.split([size for _, size in self.parts], dim=-1), strict=True):
            if not kind:
                parts.append(next(fields).forward(part))
            elif norm is None:
                parts.append(part)
            elif kind == SHARED:
                parts.append(norm.parts["shared"].forward(part.unflatten(-1, (-1, self.shared_features))).flatten(-2))
            else:
                parts.append(self._observations(part, present, norm))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _observations(self, part: Tensor, present: Tensor | None, norm: ObservationNorm) -> Tensor:
        """Return the normalised observations of all agents, for each role its shared part and then its agents."""
        roles = part.unflatten(-1, (-1, self.shared_features + self.agents * self.features))
        shared, own_part = roles.split([self.shared_features, self.agents * self.features], dim=-1)
        rows: Tensor = norm.parts["own"].forward(own_part.unflatten(-1, (self.agents, self.features)))
        alive = None if present is None else present.unflatten(-1, (-1, self.agents))
        if alive is not None:
            rows = torch.where(alive.unsqueeze(-1), rows, 0.0)
        if not self.shared_features:
            return rows.flatten(-3)
        shared = norm.parts["shared"].forward(shared)
        if alive is not None:
            shared = torch.where(alive.any(-1, keepdim=True), shared, 0.0)
        return torch.cat((shared, rows.flatten(-2)), dim=-1).flatten(-2)

    def update(self, inputs: Tensor, valid: Tensor) -> None:
        """Update the statistics of fields, see ``Policy.observe()``."""
        of_world, fields = valid.any(-1), iter(self.fields)
        for (kind, _), part in zip(self.parts, inputs.split([size for _, size in self.parts], dim=-1), strict=True):
            if not kind:
                _update(next(fields), part, of_world)
