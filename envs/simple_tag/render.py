"""Draws one world of Tag among obstacles."""

from __future__ import annotations

from gpu_vecenv.envs.mpe.scene import Circle, ParticleRenderer, State, distance
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.style import Palette


class Renderer(ParticleRenderer):
    """Adversaries, good agents and obstacles; a ring is around good agents that are touched. See the base class."""

    title = "Simple Tag"

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return obstacles, then agents, then rings."""
        first, places = int(self.params["num_adversaries"]), state["agent_pos"]
        shown = [Circle(place, 0.2, palette.border) for place in state["landmark_pos"]]
        shown += [Circle(place, 0.075, palette.vermilion) for place in places[:first]]
        shown += [Circle(place, 0.05, palette.green) for place in places[first:]]
        return shown + [Circle(places[first + i], 0.08, palette.mark, hollow=True) for i in self._caught(state)]

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return the number of good agents that are touched."""
        caught = len(self._caught(state))
        return (Reading("touched", f"{caught} / {self.params['num_good']}", caught > 0),)

    def _caught(self, state: State) -> list[int]:
        """Return the numbers of good agents that an adversary touches."""
        first, places = int(self.params["num_adversaries"]), state["agent_pos"]
        return [i for i, one in enumerate(places[first:]) if any(distance(one, other) < 0.125 for other in places[:first])]
