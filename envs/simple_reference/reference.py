"""Reference, the scenario, in slow, readable NumPy: the rules of README.md in this folder, one world at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.envs.mpe.slow_world import Body, ParticleWorld, distance


class SimpleReferenceReference(ParticleWorld):
    """Two agents and three landmarks. Arguments and attributes: see the base class."""

    def bodies(self) -> list[Body]:
        """Return both agents."""
        return [Body("agent", words=10)] * 2

    def row(self, i: int) -> list[Any]:
        """Velocity, landmarks, colour of the landmark of which the agent knows, what the other one said."""
        colour = 0.25 + 0.5 * np.eye(3)[self.goal[i]]
        return [self.vel[i], self.landmarks - self.pos[i], colour, self.comm[1 - i]]

    def rewards(self) -> list[float]:
        """Minus the distance of the other agent from its target, mixed with the mean of both."""
        local = self.params["local_ratio"]
        parts = [-distance(self.pos[1 - i], self.landmarks[self.goal[i]]) for i in range(2)]
        return [(1 - local) * sum(parts) / 2 + local * part for part in parts]
