"""Draws one world of World comm."""

from __future__ import annotations

from gpu_vecenv.envs.mpe.scene import Circle, ParticleRenderer, State, distance, letter_of
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.style import Palette, mix


class Renderer(ParticleRenderer):
    """Forests, obstacles, food and agents. The leader has a ring and the letter that it said. See the base class."""

    title = "Simple World Comm"

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return forests, other landmarks, then agents."""
        adversaries, obstacles, food = (int(self.params[f"num_{kind}"]) for kind in ("adversaries", "obstacles", "food"))
        landmarks, places = state["landmark_pos"], state["agent_pos"]
        shown = [Circle(place, 0.3, mix(palette.green, palette.surface, 0.35)) for place in landmarks[obstacles + food :]]
        shown += [Circle(place, 0.2, palette.border) for place in landmarks[:obstacles]]
        shown += [Circle(place, 0.03, palette.sky) for place in landmarks[obstacles : obstacles + food]]
        shown += [Circle(place, 0.075, palette.vermilion) for place in places[1:adversaries]]
        shown += [Circle(places[0], 0.075, palette.vermilion, letter_of(state["comm"][0]))]
        shown += [Circle(places[0], 0.1, palette.ink, hollow=True)]
        return shown + [Circle(place, 0.045, palette.green) for place in places[adversaries:]]

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return the number of good agents that an adversary touches."""
        first, places = int(self.params["num_adversaries"]), state["agent_pos"]
        touched = sum(any(distance(one, other) < 0.12 for other in places[:first]) for one in places[first:])
        return (Reading("touched", f"{touched} / {self.params['num_good']}", touched > 0),)
