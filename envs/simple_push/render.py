"""Draws one world of Push."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.mpe.scene import Circle, Circles, ParticleRenderer, agent, distance, landmark, one
from gpu_vecenv.render.expressions import field, pick
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.scene import Written


class Renderer(ParticleRenderer):
    """The adversary, two landmarks, and the good agent in the colour of its target. See the base class."""

    title = "Simple Push"
    movers = ("adversary", "agent")

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return landmarks, then agents, and a ring around the target."""
        colours, goal = (palette.green, palette.sky), field("goal")
        shown = [one(Circle(landmark(k), 0.05, colour)) for k, colour in enumerate(colours)]
        shown += [one(Circle(landmark(goal), 0.08, pick(colours, goal), hollow=True))]
        shown += [one(Circle(agent(0), 0.05, palette.vermilion)), one(Circle(agent(1), 0.05, pick(colours, goal)))]
        return shown

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return the distances from the target: of the adversary, and of the good agent."""
        target = landmark(field("goal"))
        adversary, good = (Written(distance(agent(k), target), ".2f") for k in (0, 1))
        return Reading("adversary", [adversary]), Reading("agent", [good])
