"""Draws one world of Simple."""

from __future__ import annotations

from gpu_vecenv.envs.mpe.scene import Circle, ParticleRenderer, State, distance
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.style import Palette


class Renderer(ParticleRenderer):
    """The agent and, in another colour, its landmark; see the base class."""

    title = "Simple"

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return the landmark and the agent."""
        return [Circle(state["landmark_pos"][0], 0.05, palette.vermilion), Circle(state["agent_pos"][0], 0.05, palette.sky)]

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return the distance of both."""
        return (Reading("distance", f"{distance(state['agent_pos'][0], state['landmark_pos'][0]):.2f}"),)
