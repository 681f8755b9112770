"""Simple in slow, readable NumPy: the rules of README.md in this folder, one world at a time."""

from __future__ import annotations

from typing import Any

from gpu_vecenv.envs.mpe.slow_world import Body, ParticleWorld, distance


class SimpleReference(ParticleWorld):
    """An agent and a landmark. Arguments and attributes: see the base class."""

    def bodies(self) -> list[Body]:
        """Return the agent."""
        return [Body("agent")]

    def row(self, i: int) -> list[Any]:
        """Velocity, and the landmark as seen from the agent."""
        return [self.vel[i], self.landmarks - self.pos[i]]

    def rewards(self) -> list[float]:
        """Minus the squared distance."""
        return [-(distance(self.pos[0], self.landmarks[0]) ** 2)]
