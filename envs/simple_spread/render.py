"""Draws one world of Spread."""

from __future__ import annotations

from gpu_vecenv.envs.mpe.scene import Circle, ParticleRenderer, State, distance
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.style import Palette


class Renderer(ParticleRenderer):
    """Agents, large, and landmarks; see the base class."""

    title = "Simple Spread"

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return agents, then landmarks, which stay visible below them."""
        agents = [Circle(place, 0.15, palette.sky) for place in state["agent_pos"]]
        return agents + [Circle(place, 0.05, palette.ink) for place in state["landmark_pos"]]

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return the number of landmarks that have an agent within 0.1."""
        landmarks = state["landmark_pos"]
        covered = sum(min(distance(place, landmark) for place in state["agent_pos"]) < 0.1 for landmark in landmarks)
        return (Reading("covered", f"{covered} / {len(landmarks)}", covered == len(landmarks)),)
