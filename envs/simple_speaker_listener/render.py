"""Draws one world of the speaker and the listener."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.mpe.scene import Circle, Circles, ParticleRenderer, agent, distance, landmark, letter_of, one
from gpu_vecenv.render.expressions import field, pick
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.scene import Written


class Renderer(ParticleRenderer):
    """Landmarks in three colours, the speaker, and the listener with a ring in the colour of its goal. See the base class."""

    title = "Simple Speaker Listener"
    movers = ("listener",)

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return landmarks, the speaker with the letter that it said, and the listener."""
        colours = (palette.vermilion, palette.green, palette.sky)
        shown = [one(Circle(landmark(k), 0.04, colour)) for k, colour in enumerate(colours)]
        shown += [one(Circle(agent(0), 0.075, palette.border, said=letter_of(3, 0))), one(Circle(agent(1), 0.075, palette.muted))]
        return [*shown, one(Circle(agent(1), 0.1, pick(colours, field("goal")), hollow=True))]

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return the distance of the listener from its goal."""
        return (Reading("distance", [Written(distance(agent(1), landmark(field("goal"))), ".2f")]),)
