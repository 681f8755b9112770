"""Draws one world of Adversary."""

from __future__ import annotations

from gpu_vecenv.envs.mpe.scene import Circle, ParticleRenderer, State, distance
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.style import Palette


class Renderer(ParticleRenderer):
    """The adversary, good agents and landmarks, of which the target has a colour of its own. See the base class."""

    title = "Simple Adversary"

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return agents, then landmarks, which stay visible below them."""
        adversary, *good = state["agent_pos"]
        shown = [Circle(adversary, 0.15, palette.vermilion), *(Circle(place, 0.15, palette.sky) for place in good)]
        goal = int(state["goal"])
        return shown + [
            Circle(place, 0.08, palette.green if k == goal else palette.border) for k, place in enumerate(state["landmark_pos"])
        ]

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return the distances from the target: of the adversary, and of the nearest good agent."""
        adversary, *good = (distance(place, state["landmark_pos"][int(state["goal"])]) for place in state["agent_pos"])
        return Reading("adversary", f"{adversary:.2f}"), Reading("nearest agent", f"{min(good):.2f}")
