"""Draws one world of Simple."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.mpe.scene import Circle, Circles, ParticleRenderer, agent, distance, landmark, one
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.scene import Written


class Renderer(ParticleRenderer):
    """The agent and, in another colour, its landmark; see the base class."""

    title = "Simple"
    movers = ("agent",)

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return the landmark and the agent."""
        return [one(Circle(landmark(0), 0.05, palette.vermilion)), one(Circle(agent(0), 0.05, palette.sky))]

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return the distance of both."""
        return (Reading("distance", [Written(distance(agent(0), landmark(0)), ".2f")]),)
