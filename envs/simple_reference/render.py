"""Draws one world of Reference."""

from __future__ import annotations

from gpu_vecenv.envs.mpe.scene import Circle, ParticleRenderer, State, distance, letter_of
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.style import Palette


class Renderer(ParticleRenderer):
    """Landmarks in three colours, and agents, each with a ring in the colour of its target. See the base class."""

    title = "Simple Reference"

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return landmarks, then agents with the letters that they said."""
        colours = (palette.vermilion, palette.green, palette.sky)
        shown = [Circle(place, 0.05, colour) for place, colour in zip(state["landmark_pos"], colours, strict=True)]
        for i, place in enumerate(state["agent_pos"]):
            shown.append(Circle(place, 0.05, palette.border, letter_of(state["comm"][i])))
            shown.append(Circle(place, 0.08, colours[int(state["goal"][1 - i])], hollow=True))
        return shown

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return the mean distance from the targets."""
        far = [distance(place, state["landmark_pos"][int(state["goal"][1 - i])]) for i, place in enumerate(state["agent_pos"])]
        return (Reading("distance", f"{sum(far) / 2:.2f}"),)
