"""Parts that pictures of environments share: title and step above, a drawing area, readings below, bars and arrows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpu_vecenv.render.expressions import Ink, Number, Operand, choose, cos, field, least, sin, sqrt
from gpu_vecenv.render.legend import GLYPH, SPACE, TEXT, entry_width
from gpu_vecenv.render.legend import HEIGHT as LEGEND_HEIGHT
from gpu_vecenv.render.scene import At, Glyph, Scene, Words, Written

MARGIN = 24.0
HEADER, FOOTER = 88, 56  # heights above and below the drawing area
STATUS = 48  # height of a line of text above a scene

class Reading(NamedTuple):
    """A named value below the drawing area; it has the colour of a reached goal where `marked` is not 0."""

    name: str
    words: Words
    marked: Number | None = None


class Panel:
    """Layout of a picture.

    Args:
        title: Name of the environment.
        limit: Time limit in steps, 0 for none. A bar shows the share of it that has passed.
        width: Width of the picture in pixels.
        height: Height of the picture in pixels.
    """

    def __init__(self, title: str, limit: int, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.top, self.bottom = HEADER, height - FOOTER
        self._title, self._limit = title, limit

    def empty(self) -> Scene:
        """Return a scene with the title and an empty drawing area."""
        scene = Scene(self.width, self.height)
        scene.rectangle(0, self.top, self.width, self.bottom, scene.palette.surface)
        scene.text((MARGIN, 52), self._title, 30)
        if self._limit:
            scene.rectangle(MARGIN, 68, self.width - MARGIN, 74, scene.palette.grid, corner=3)
        return scene

    def write(self, scene: Scene, readings: Sequence[Reading]) -> None:
        """Write the step above the drawing area and the readings below it."""
        left, right, time = MARGIN, self.width - MARGIN, field("t")
        scene.text((right, 52), steps_of(self._limit, "d"), 24, anchor="rs")
        if self._limit:
            done = least(1.0, time / self._limit)
            scene.rectangle(left, 68, left + done * (right - left), 74, scene.palette.ink, corner=3)
        for k, reading in enumerate(readings):
            scene.text((left + 240.0 * k, self.height - 22), reading.name, 20, scene.palette.muted)
            ink = scene.palette.ink
            colour = ink if reading.marked is None else choose(reading.marked, scene.palette.mark, ink)
            self.write_value(scene, k, reading.words, colour)

    def write_value(self, scene: Scene, number: int, words: Words, colour: Ink, when: Number | None = None) -> None:
        """Write the value of a reading by its number, where a condition is not 0."""
        scene.text((MARGIN + 240.0 * number + 200, self.height - 22), words, 22, colour, "rs", when)


def steps_of(limit: int, form: str) -> Words:
    """Return the words for the step, and for the time limit if it is not 0."""
    time = Written(field("t"), form)
    return ["step ", time, f" / {limit:{form}}"] if limit else ["step ", time]


def make_status(width: float, left: Words) -> Scene:
    """Return a strip with a short text at the left, 48 pixels high; `write_status` adds that at the right."""
    scene = Scene(width, STATUS)
    scene.text((MARGIN, 34), left, 24, scene.palette.muted)
    return scene


def write_status(scene: Scene, right: Words, when: Number | None = None) -> None:
    """Write the text at the right of a strip, where a condition is not 0."""
    scene.text((scene.width - MARGIN, 34), right, 24, anchor="rs", when=when)


def make_legend(glyphs: Sequence[Glyph], width: float) -> Scene:
    """Return a strip with a shape and a word for each glyph, in its middle. All entries must fit."""
    scene, widths = Scene(width, LEGEND_HEIGHT), [entry_width(glyph.word) for glyph in glyphs]
    at = (width - sum(widths) - SPACE * (len(glyphs) + 1)) / 2 + SPACE
    for glyph, glyph_width in zip(glyphs, widths, strict=True):
        glyph.draw(scene, (at + GLYPH / 2 - 4, LEGEND_HEIGHT / 2))
        scene.text((at + GLYPH, LEGEND_HEIGHT / 2), glyph.word, TEXT, anchor="lm")
        at += glyph_width + SPACE
    return scene


def draw_bar(scene: Scene, start: At, end: At, radius: float, colour: Ink) -> None:
    """Draw a thick line with round ends."""
    across, down = end[0] - start[0], end[1] - start[1]
    size = sqrt(across * across + down * down)
    u, v = across / size * radius, down / size * radius
    corners = ((start[0] - v, start[1] + u), (start[0] + v, start[1] - u), (end[0] + v, end[1] - u), (end[0] - v, end[1] + u))
    scene.polygon(corners, colour)
    scene.disc(start, radius, colour)
    scene.disc(end, radius, colour)


def draw_dashes(scene: Scene, start: tuple[float, float], end: tuple[float, float], colour: Ink) -> None:
    """Draw a straight line of dashes 7 pixels long and 7 apart."""
    size = math.dist(start, end)
    u, v = (end[0] - start[0]) / size, (end[1] - start[1]) / size
    for at in range(0, int(size), 14):
        stop = min(at + 7.0, size)
        scene.line((start[0] + at * u, start[1] + at * v, start[0] + stop * u, start[1] + stop * v), colour, 2.0)


def draw_arrow(scene: Scene, points: Sequence[At], colour: Ink, when: Number, width: float = 3.0) -> None:
    """Draw a line through at least two `points` with a head, three times as wide, beyond the last.

    `when` is 0 where the last two points are one.
    """
    scene.line(points, colour, width, when)
    (x0, y0), (x, y) = points[-2:]
    size = sqrt((x - x0) * (x - x0) + (y - y0) * (y - y0))
    u, v = (x - x0) / size * (1.6 * width), (y - y0) / size * (1.6 * width)
    scene.polygon([(x + 1.6 * u, y + 1.6 * v), (x - v, y + u), (x + v, y - u)], colour, when)


def draw_turn(scene: Scene, centre: At, radius: float, heading: Operand, sweep: Number, colour: Ink) -> None:
    """Draw an arrow around `centre` that shows an angular velocity.

    Args:
        scene: Scene to draw on.
        centre: Centre of the arc.
        radius: Radius of the arc in pixels.
        heading: Angle in radians at which the arc starts, counter-clockwise from straight right.
        sweep: Angle of the arc in radians, negative for clockwise. Arcs shorter than 0.05 are not drawn.
        colour: Colour of the arrow.
    """
    xs = scene.now(25, lambda k: centre[0] + radius * cos(heading + sweep * (k / 24)))
    ys = scene.now(25, lambda k: centre[1] - radius * sin(heading + sweep * (k / 24)))
    points = [(xs[k], ys[k]) for k in range(25)]
    draw_arrow(scene, points, colour, abs(sweep) >= 0.05)


def draw_time(scene: Scene, title: str, limit: int, left: float, right: float) -> None:
    """Draw the head of a panel: the title, the step and a bar of the share of the time limit that has passed."""
    palette, time = scene.palette, field("t")
    scene.text((left, 52), title, 34)
    scene.text((left, 124), "step", 16, palette.muted)
    scene.text((right, 124), [Written(time), f" / {limit}"], 26, anchor="rs")
    scene.rectangle(left, 138, right, 144, palette.grid, corner=3)
    scene.rectangle(left, 138, left + least(1.0, time / limit) * (right - left), 144, palette.ink, corner=3)


def draw_axis(scene: Scene, limit: int, box: tuple[float, float, float, float]) -> None:
    """Draw the ground of a curve, with the steps below it."""
    left, _, right, bottom = box
    scene.rectangle(*box, scene.palette.surface)
    scene.text((left, bottom + 18), "0", 14, scene.palette.muted)
    scene.text((right, bottom + 18), f"step {limit:,}", 14, scene.palette.muted, "rs")
