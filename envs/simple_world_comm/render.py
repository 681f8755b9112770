"""Draws one world of World comm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.mpe.scene import Circle, Circles, ParticleRenderer, agent, distance, landmark, letter_of, one
from gpu_vecenv.envs.simple_world_comm.spec import WORDS
from gpu_vecenv.render.expressions import blend, smallest, total
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.scene import Written


class Renderer(ParticleRenderer):
    """Forests, obstacles, food and agents. The leader has a ring and the letter that it said. See the base class."""

    title = "Simple World Comm"
    movers = ("adversary", "agent")

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return forests, other landmarks, then agents."""
        adversaries, good = int(params["num_adversaries"]), int(params["num_good"])
        obstacles, food, forests = (int(params[f"num_{kind}"]) for kind in ("obstacles", "food", "forests"))
        forest = blend(palette.green, palette.surface, 0.35)
        return [
            Circles(forests, lambda i: Circle(landmark(obstacles + food + i), 0.3, forest)),
            Circles(obstacles, lambda i: Circle(landmark(i), 0.2, palette.border)),
            Circles(food, lambda i: Circle(landmark(obstacles + i), 0.03, palette.sky)),
            Circles(adversaries - 1, lambda i: Circle(agent(1 + i), 0.075, palette.vermilion)),
            one(Circle(agent(0), 0.075, palette.vermilion, said=letter_of(WORDS, 0))),
            one(Circle(agent(0), 0.1, palette.ink, hollow=True)),
            Circles(good, lambda i: Circle(agent(adversaries + i), 0.045, palette.green)),
        ]

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return the number of good agents that an adversary touches."""
        first, good = int(params["num_adversaries"]), int(params["num_good"])
        touched = total(good, lambda i: smallest(first, lambda k: distance(agent(k), agent(first + i))) < 0.12)
        return (Reading("touched", [Written(touched), f" / {good}"], touched > 0),)
