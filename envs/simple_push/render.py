"""Draws one world of Push."""

from __future__ import annotations

from gpu_vecenv.envs.mpe.scene import Circle, ParticleRenderer, State, distance
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.style import Palette


class Renderer(ParticleRenderer):
    """The adversary, two landmarks, and the good agent in the colour of its target. See the base class."""

    title = "Simple Push"

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return landmarks, then agents, and a ring around the target."""
        colours, goal = (palette.green, palette.sky), int(state["goal"])
        adversary, good = state["agent_pos"]
        shown = [Circle(place, 0.05, colour) for place, colour in zip(state["landmark_pos"], colours, strict=True)]
        shown += [Circle(state["landmark_pos"][goal], 0.08, colours[goal], hollow=True)]
        return [*shown, Circle(adversary, 0.05, palette.vermilion), Circle(good, 0.05, colours[goal])]

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return the distances from the target: of the adversary, and of the good agent."""
        adversary, good = (distance(place, state["landmark_pos"][int(state["goal"])]) for place in state["agent_pos"])
        return Reading("adversary", f"{adversary:.2f}"), Reading("agent", f"{good:.2f}")
