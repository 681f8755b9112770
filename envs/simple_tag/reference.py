"""Tag among obstacles in slow, readable NumPy: the rules of README.md in this folder, one world at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.envs.mpe.slow_world import Body, ParticleWorld, price

ADVERSARY = Body("adversary", 0.075, 3.0, 1.0, collides=True)
GOOD = Body("agent", 0.05, 4.0, 1.3, collides=True)


class SimpleTagReference(ParticleWorld):
    """Adversaries, good agents and obstacles. Arguments and attributes: see the base class."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.obstacles = (Body(radius=0.2, collides=True),) * int(params["num_obstacles"])

    def bodies(self) -> list[Body]:
        """Return adversaries, then good agents."""
        return [ADVERSARY] * int(self.params["num_adversaries"]) + [GOOD] * int(self.params["num_good"])

    def row(self, i: int) -> list[Any]:
        """Velocity, place, obstacles, other agents, velocities of those that are good."""
        peers, number = self.peers(i), self.params["num_agent_neighbors"]
        good = np.array([self.agents[j] is GOOD for j in peers], bool)
        velocities = self.vel[peers][good]
        if number:
            seen = self.seen(i, self.pos[peers], "num_agent_neighbors")
            velocities = np.zeros((number, 2))
            velocities[: len(seen)] = (self.vel[peers] * good[:, None])[seen]
        places = self.seen_from(i, self.pos[peers], "num_agent_neighbors")
        return [self.vel[i], self.pos[i], self.seen_from(i, self.landmarks, "num_landmark_neighbors"), places, velocities]

    def _touches(self) -> dict[int, int]:
        """Return the number of adversaries that touch each good agent."""
        return {i: sum(self.touch(i, j) for j in self.indices_of("adversary")) for i in self.indices_of("agent")}

    def rewards(self) -> list[float]:
        """10 for touches to all adversaries, minus 10 and the price of the place to good agents."""
        touches = self._touches()
        prey = [-10.0 * touches[i] - price(self.pos[i]) for i in self.indices_of("agent")]
        return [10.0 * sum(touches.values())] * len(self.indices_of("adversary")) + prey

    def is_over(self) -> bool:
        """Return True if every good agent is touched."""
        return bool(self.params["terminate_on_success"] and all(self._touches().values()))
