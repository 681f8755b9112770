"""World comm in slow, readable NumPy: the rules of README.md in this folder, one world at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.envs.mpe.slow_world import Body, ParticleWorld, distance, price

LEADER = Body("leadadversary", 0.075, 3.0, 1.0, collides=True, words=4)
ADVERSARY = Body("adversary", 0.075, 3.0, 1.0, collides=True)
GOOD = Body("agent", 0.045, 4.0, 1.3, collides=True)
FOOD, FOREST = 0.03, 0.3  # radii


class SimpleWorldCommReference(ParticleWorld):
    """A leader, adversaries, good agents; obstacles, food and forests. Arguments and attributes: see the base class."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.obstacles = (Body(radius=0.2, collides=True),) * int(params["num_obstacles"])

    def bodies(self) -> list[Body]:
        """Return the leader, other adversaries, good agents."""
        return [LEADER, *[ADVERSARY] * (int(self.params["num_adversaries"]) - 1), *[GOOD] * int(self.params["num_good"])]

    def _food(self) -> np.ndarray:
        first = int(self.params["num_obstacles"])
        return self.landmarks[first : first + int(self.params["num_food"])]

    def _inside(self, i: int) -> np.ndarray:
        """Return the forests in which an agent is, bool (forests,)."""
        forests = self.landmarks[len(self.obstacles) + int(self.params["num_food"]) :]
        return np.array([distance(self.pos[i], place) < self.agents[i].radius + FOREST for place in forests], bool)

    def _sees(self, i: int, j: int) -> bool:
        """Return True if both are in one forest, or none is in any, or agent i is the leader."""
        mine, other = self._inside(i), self._inside(j)
        return bool((mine & other).any() or not (mine.any() or other.any()) or i == 0)

    def row(self, i: int) -> list[Any]:
        """Velocity, place, landmarks, others, then velocities of good agents and forests, and words for adversaries."""
        peers = self.peers(i)
        places = [(self.pos[j] - self.pos[i]) * self._sees(i, j) for j in peers]
        velocities = [self.vel[j] * self._sees(i, j) for j in peers if self.agents[j] is GOOD]
        forests = np.where(self._inside(i), 1.0, -1.0)
        first = [self.vel[i], self.pos[i], self.landmarks - self.pos[i], places]
        return [*first, forests, velocities] if self.agents[i] is GOOD else [*first, velocities, forests, self.comm]

    def rewards(self) -> list[float]:
        """Touches and distances for adversaries; touches, food and the price of the place for good agents."""
        prey = self.indices_of("agent")
        hunters = [i for i in self.peers(-1) if i not in prey]
        touches = {i: sum(self.touch(i, j) for j in hunters) for i in prey}
        rewards = [5 * sum(touches.values()) - 0.1 * min(distance(self.pos[i], self.pos[j]) for j in prey) for i in hunters]
        for i in prey:
            far = np.array([distance(self.pos[i], place) for place in self._food()])
            food = 2 * (far < self.agents[i].radius + FOOD).sum() - 0.05 * far.min()
            rewards.append(float(food - 5 * touches[i] - 2 * price(self.pos[i])))
        return rewards
