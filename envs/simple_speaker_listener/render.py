"""Draws one world of the speaker and the listener."""

from __future__ import annotations

from gpu_vecenv.envs.mpe.scene import Circle, ParticleRenderer, State, distance, letter_of
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.style import Palette


class Renderer(ParticleRenderer):
    """Landmarks in three colours, the speaker, and the listener with a ring in the colour of its goal. See the base class."""

    title = "Simple Speaker Listener"

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return landmarks, the speaker with the letter that it said, and the listener."""
        colours = (palette.vermilion, palette.green, palette.sky)
        shown = [Circle(place, 0.04, colour) for place, colour in zip(state["landmark_pos"], colours, strict=True)]
        speaker, listener = state["agent_pos"]
        shown += [Circle(speaker, 0.075, palette.border, letter_of(state["comm"][0])), Circle(listener, 0.075, palette.muted)]
        return [*shown, Circle(listener, 0.1, colours[int(state["goal"])], hollow=True)]

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return the distance of the listener from its goal."""
        return (Reading("distance", f"{distance(state['agent_pos'][1], state['landmark_pos'][int(state['goal'])]):.2f}"),)
