"""Normalisation of observations, whose parts have statistics of their own."""

from __future__ import annotations

import math

from gymnasium.spaces import Box
from numpy import uint8
from torch import Tensor, nn

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.policies.contract import Observation
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
