"""Spread in slow, readable NumPy: the rules of README.md in this folder, one world at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.envs.mpe.slow_world import Body, ParticleWorld, distance


class SimpleSpreadReference(ParticleWorld):
    """Agents and as many landmarks. Arguments and attributes: see the base class."""

    def bodies(self) -> list[Body]:
        """Return the agents."""
        return [Body("agent", 0.15, collides=True)] * int(self.params["num_landmarks"])

    def row(self, i: int) -> list[Any]:
        """Velocity, place, landmarks, other agents, two zeros for what each of these says."""
        agents_seen = self.seen_from(i, self.pos[self.peers(i)], "num_agent_neighbors")
        landmarks = self.seen_from(i, self.landmarks, "num_landmark_neighbors")
        return [self.vel[i], self.pos[i], landmarks, agents_seen, np.zeros_like(agents_seen)]

    def _nearest(self) -> np.ndarray:
        """Distance of each landmark from the agent nearest to it."""
        return np.array([min(distance(place, landmark) for place in self.pos) for landmark in self.landmarks])

    def rewards(self) -> list[float]:
        """Minus the sum of these distances, and minus 1 for each touch, weighted."""
        local, shared = self.params["local_ratio"], -self._nearest().sum()
        touches = [sum(self.touch(i, j) for j in self.peers(i)) for i in range(len(self.agents))]
        return [(1 - local) * shared - local * number for number in touches]

    def is_over(self) -> bool:
        """Return True if every landmark has an agent within 0.1."""
        return bool(self.params["terminate_on_success"] and (self._nearest() < 0.1).all())
