"""Draws one world of Tag among obstacles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.mpe.scene import Circle, Circles, ParticleRenderer, agent, distance, landmark
from gpu_vecenv.render.expressions import Number, Operand, smallest, total
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.scene import Written


class Renderer(ParticleRenderer):
    """Adversaries, good agents and obstacles; a ring is around good agents that are touched. See the base class."""

    title = "Simple Tag"
    movers = ("adversary", "agent")

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return obstacles, then agents, then rings."""
        first, good = int(params["num_adversaries"]), int(params["num_good"])
        return [
            Circles(int(params["num_obstacles"]), lambda i: Circle(landmark(i), 0.2, palette.border)),
            Circles(first, lambda i: Circle(agent(i), 0.075, palette.vermilion)),
            Circles(good, lambda i: Circle(agent(first + i), 0.05, palette.green)),
            Circles(good, lambda i: Circle(agent(first + i), 0.08, palette.mark, True, when=is_caught(first, i))),
        ]

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return the number of good agents that are touched."""
        first, good = int(params["num_adversaries"]), int(params["num_good"])
        caught = total(good, lambda i: is_caught(first, i))
        return (Reading("touched", [Written(caught), f" / {good}"], caught > 0),)


def is_caught(adversaries: int, index: Operand) -> Number:
    """Return 1 if an adversary touches a good agent."""
    return smallest(adversaries, lambda k: distance(agent(k), agent(adversaries + index))) < 0.125
