"""Draws one world of Spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.mpe.scene import Circle, Circles, ParticleRenderer, agent, distance, landmark
from gpu_vecenv.render.expressions import smallest, total
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.scene import Written


class Renderer(ParticleRenderer):
    """Agents, large, and landmarks; see the base class."""

    title = "Simple Spread"
    movers = ("agent",)

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return agents, then landmarks, which stay visible below them."""
        number = int(params["num_landmarks"])
        agents = Circles(number, lambda i: Circle(agent(i), 0.15, palette.sky))
        return [agents, Circles(number, lambda i: Circle(landmark(i), 0.05, palette.ink))]

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return the number of landmarks that have an agent within 0.1."""
        number = int(params["num_landmarks"])
        covered = total(number, lambda i: smallest(number, lambda k: distance(agent(k), landmark(i))) < 0.1)
        return (Reading("covered", [Written(covered), f" / {number}"], covered.is_(number)),)
