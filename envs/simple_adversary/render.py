"""Draws one world of Adversary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.mpe.scene import Circle, Circles, ParticleRenderer, agent, distance, landmark, one
from gpu_vecenv.render.expressions import choose, field, smallest
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.scene import Written


class Renderer(ParticleRenderer):
    """The adversary, good agents and landmarks, of which the target has a colour of its own. See the base class."""

    title = "Simple Adversary"
    movers = ("adversary", "agent")

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return agents, then landmarks, which stay visible below them."""
        goal, number = field("goal"), int(params["num_landmarks"])
        return [
            one(Circle(agent(0), 0.15, palette.vermilion)),
            Circles(number, lambda i: Circle(agent(1 + i), 0.15, palette.sky)),
            Circles(number, lambda i: Circle(landmark(i), 0.08, choose(goal.is_(i), palette.green, palette.border))),
        ]

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return the distances from the target: of the adversary, and of the nearest good agent."""
        target = landmark(field("goal"))
        nearest = smallest(int(params["num_landmarks"]), lambda i: distance(agent(1 + i), target))
        far = Written(distance(agent(0), target), ".2f")
        return Reading("adversary", [far]), Reading("nearest agent", [Written(nearest, ".2f")])
