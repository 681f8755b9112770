"""Adversary in slow, readable NumPy: the rules of README.md in this folder, one world at a time."""

from __future__ import annotations

from typing import Any

from gpu_vecenv.envs.mpe.slow_world import Body, ParticleWorld, distance


class SimpleAdversaryReference(ParticleWorld):
    """An adversary, good agents and as many landmarks. Arguments and attributes: see the base class."""

    def bodies(self) -> list[Body]:
        """Return the adversary, then good agents."""
        return [Body("adversary", 0.15), *[Body("agent", 0.15)] * int(self.params["num_landmarks"])]

    def row(self, i: int) -> list[Any]:
        """Target, if the agent is a good one, then landmarks and other agents."""
        target = [self.landmarks[self.goal] - self.pos[i]] if i else []
        agents_seen = self.seen_from(i, self.pos[self.peers(i)], "num_agent_neighbors")
        return [*target, self.seen_from(i, self.landmarks, "num_landmark_neighbors"), agents_seen]

    def rewards(self) -> list[float]:
        """Distances from the target: minus that of the adversary; to good agents that, minus the smallest of theirs."""
        adversary, *good = (distance(place, self.landmarks[self.goal]) for place in self.pos)
        return [-adversary] + [adversary - min(good)] * len(good)
