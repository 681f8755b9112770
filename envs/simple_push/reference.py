"""Push in slow, readable NumPy: the rules of README.md in this folder, one world at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.envs.mpe.slow_world import Body, ParticleWorld, distance

COLOURS = np.array([[0.1, 0.9, 0.1], [0.1, 0.1, 0.9]])  # of the landmarks


class SimplePushReference(ParticleWorld):
    """An adversary, a good agent and two landmarks. Arguments and attributes: see the base class."""

    def bodies(self) -> list[Body]:
        """Return the adversary, then the good agent."""
        return [Body("adversary", collides=True), Body("agent", collides=True)]

    def row(self, i: int) -> list[Any]:
        """Velocity, target and own colour if the agent is the good one, landmarks, their colours to it, the other agent."""
        landmarks, other = self.landmarks - self.pos[i], self.pos[1 - i] - self.pos[i]
        if i == 0:
            return [self.vel[i], landmarks, other]
        colour = 0.25 + 0.5 * np.eye(3)[self.goal + 1]
        return [self.vel[i], landmarks[self.goal], colour, landmarks, COLOURS, other]

    def rewards(self) -> list[float]:
        """To the good agent minus its distance from the target, to the adversary that distance minus its own."""
        adversary, good = (distance(place, self.landmarks[self.goal]) for place in self.pos)
        return [good - adversary, -good]
