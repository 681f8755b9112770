"""Draws one world of Reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.mpe.scene import Circle, Circles, ParticleRenderer, agent, distance, landmark, letter_of, one
from gpu_vecenv.envs.simple_reference.spec import WORDS
from gpu_vecenv.render.expressions import field, pick, total
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.scene import Written


class Renderer(ParticleRenderer):
    """Landmarks in three colours, and agents, each with a ring in the colour of its target. See the base class."""

    title = "Simple Reference"

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return landmarks, then agents with the letters that they said."""
        colours = (palette.vermilion, palette.green, palette.sky)
        shown = [one(Circle(landmark(k), 0.05, colour)) for k, colour in enumerate(colours)]
        for k in range(2):
            shown.append(one(Circle(agent(k), 0.05, palette.border, said=letter_of(WORDS, k))))
            shown.append(one(Circle(agent(k), 0.08, pick(colours, field("goal", 1 - k)), hollow=True)))
        return shown

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return the mean distance from the targets."""
        far = total(2, lambda i: distance(agent(i), landmark(field("goal", 1 - i))))
        return (Reading("distance", [Written(far / 2, ".2f")]),)
