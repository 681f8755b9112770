"""Pictures of particle environments: circles on a plane, as mpe2 draws them, with the letters of what agents say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpu_vecenv.render.controls import Controls, Held, toward
from gpu_vecenv.render.expressions import Ink, Number, Operand, choose, field, largest, most, smallest, sqrt, total
from gpu_vecenv.render.frame import FOOTER, HEADER, Panel, Reading
from gpu_vecenv.render.scene import OneOf, Pictures, Scene
from gpu_vecenv.render.scene_renderer import SceneRenderer

WIDTH, SIDE = 560, 520
HEIGHT = HEADER + SIDE + FOOTER
MIDDLE = (WIDTH / 2, HEADER + SIDE / 2)
USUAL_REACH, FARTHEST = 1.2, 1000.0  # coordinate at the edge of the picture; places beyond the last one are not drawn
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SAID = [*ALPHABET, "_"]
"""Letters that an agent may say, by number; the last one stands for silence."""

Place = tuple[Number, Number]


class Circle(NamedTuple):
    """A circle: place, radius and colour, True for an outline alone, the number of what is said above it, and its condition."""

    place: Place
    radius: float
    colour: Ink
    hollow: bool = False
    said: Number | None = None
    when: Number | None = None


class Circles(NamedTuple):
    """Circles of one kind: their number, and each by its index."""

    number: int
    circle: Callable[[Operand], Circle]


def one(circle: Circle) -> Circles:
    """Return a single circle as a kind of its own."""
    return Circles(1, lambda i: circle)


def agent(index: Operand) -> Place:
    """Return the place of an agent."""
    return field("agent_pos", index, 0), field("agent_pos", index, 1)


def landmark(index: Operand) -> Place:
    """Return the place of a landmark."""
    return field("landmark_pos", index, 0), field("landmark_pos", index, 1)


def letter_of(words: int, speaker: Operand) -> Number:
    """Return the index in `SAID` of what an agent said: of the largest of its numbers, the first of equal ones."""
    loudest = largest(words, lambda k: field("comm", speaker, k))
    letter = smallest(words, lambda k: choose(field("comm", speaker, k).is_(loudest), k, words))
    said: Number = choose(total(words, lambda k: abs(field("comm", speaker, k))) > 0, letter, len(ALPHABET))
    return said


def distance(a: Place, b: Place) -> Number:
    """Distance of two places."""
    across, up = a[0] - b[0], a[1] - b[1]
    return sqrt(across * across + up * up)


class ParticleRenderer(SceneRenderer):
    """Pictures of one world. The picture shows places up to 1.2, or zooms out to the farthest one, as that of mpe2 does.

    A scenario is a subclass with `title`, `circles` and `readings`.
    """

    title = ""
    movers: tuple[str, ...] = ()
    """Roles whose agents move and say nothing."""

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return what is drawn, the lowest first."""
        raise NotImplementedError

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return at most two numbers or words below the picture."""
        raise NotImplementedError

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the picture, which depends on `max_cycles` and on numbers of agents and landmarks."""
        panel = Panel(self.title, int(params["max_cycles"]), WIDTH, HEIGHT)
        scene = panel.empty()
        kinds = self._kinds(params, scene.palette)
        scale = scene.now(1, lambda i: scale_of(kinds))[0]
        for number, circle in kinds:
            with scene.each(number) as i:
                draw_circle(scene, circle(i), scale)
        panel.write(scene, self.readings(params))
        return Pictures((scene,))

    def _kinds(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        return [kind for kind in self.circles(params, palette) if kind.number]

    def controls(self, params: Mapping[str, Any], held: Held) -> Mapping[str, Controls]:
        """Return the controls of `movers`."""
        if params["continuous_actions"]:
            sides = (-held.right, held.right, -held.up, held.up)
            moves: list[Operand] = [0.0, *(most(0.0, side) for side in sides)]
        else:
            moves = [toward(held, ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)))]
        scale, (x, y) = scale_of(self._kinds(params, Scene(WIDTH, HEIGHT).palette)), agent(held.agent)
        return dict.fromkeys(self.movers, Controls(moves, (MIDDLE[0] + scale * x, MIDDLE[1] - scale * y)))


def scale_of(kinds: list[Circles]) -> Number:
    """Return the pixels of a unit for a picture that shows all circles."""
    reach: Operand = USUAL_REACH
    for kind in kinds:
        reach = most(reach, reach_of(kind) / 0.9)
    scale = SIDE / 2 / reach
    assert isinstance(scale, Number)  # every picture has circles
    return scale


def is_near(place: Place) -> Number:
    """Return 1 if a place is one that is drawn; 0 for NaN."""
    return (abs(place[0]) < FARTHEST) & (abs(place[1]) < FARTHEST)


def farthest(place: Place) -> Number:
    """Return the larger coordinate of a place without its sign; 0 if the place is not drawn."""
    coordinate: Number = choose(is_near(place), most(abs(place[0]), abs(place[1])), 0.0)
    return coordinate


def reach_of(circles: Circles) -> Number:
    """Return the largest coordinate of circles without its sign."""
    return largest(circles.number, lambda i: farthest(circles.circle(i).place))


def draw_circle(scene: Scene, circle: Circle, scale: Number) -> None:
    """Draw a circle, `scale` pixels a unit, if it is near."""
    shown = is_near(circle.place) if circle.when is None else is_near(circle.place) & circle.when
    at = (MIDDLE[0] + scale * circle.place[0], MIDDLE[1] - scale * circle.place[1])
    radius = most(2.0, scale * circle.radius)
    if circle.hollow:
        scene.ring(at, radius, circle.colour, 3.0, shown)
    else:
        scene.disc(at, radius + 1.0, scene.palette.page, shown)
        scene.disc(at, radius, circle.colour, shown)
    if circle.said is not None:
        scene.text((at[0], at[1] - radius - 4.0), [OneOf(circle.said, SAID)], 18, anchor="ms", when=shown)
