"""Parts that pictures of single-agent environments share: title and step above, a drawing area, readings below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.style import Colour, Style

MARGIN = 24.0
HEADER, FOOTER = 88, 56  # heights above and below the drawing area
STATUS = 48  # height of a line of text above a scene


class Reading(NamedTuple):
    """A named value below the drawing area; `marked` gives it the colour of a reached goal."""

    name: str
    value: str
    marked: bool = False


class Panel:
    """Layout of a picture.

    Args:
        title: Name of the environment.
        limit: Time limit in steps, 0 for none. A bar shows the share of it that has passed.
        width: Width of the picture in pixels.
        height: Height of the picture in pixels.
        style: Colours and scale.
    """

    def __init__(self, title: str, limit: int, width: int, height: int, style: Style) -> None:
        self._style = style
        self.width, self.height = width, height
        self.top, self.bottom = HEADER, height - FOOTER
        self._title, self._limit = title, limit

    def empty(self) -> Canvas:
        """Return a canvas with the title and an empty drawing area."""
        canvas = Canvas(self.width, self.height, style=self._style)
        canvas.rectangle(0, self.top, self.width, self.bottom, canvas.palette.surface)
        canvas.text((MARGIN, 52), self._title, 30)
        return canvas

    def write(self, canvas: Canvas, time: int, readings: Sequence[Reading]) -> None:
        """Write the step above the drawing area and the readings below it."""
        left, right = MARGIN, self.width - MARGIN
        steps = f"step {time} / {self._limit}" if self._limit else f"step {time}"
        canvas.text((right, 52), steps, 24, anchor="rs")
        if self._limit:
            canvas.rectangle(left, 68, right, 74, canvas.palette.grid, corner=3)
            done = min(1.0, time / self._limit)
            canvas.rectangle(left, 68, left + done * (right - left), 74, canvas.palette.ink, corner=3)
        for k, reading in enumerate(readings):
            at = left + 240.0 * k
            canvas.text((at, self.height - 22), reading.name, 20, canvas.palette.muted)
            colour = canvas.palette.mark if reading.marked else canvas.palette.ink
            canvas.text((at + 200, self.height - 22), reading.value, 22, colour, "rs")


def draw_status(width: float, left: str, right: str, style: Style) -> np.ndarray:
    """Draw a strip with two short texts, uint8 of shape (48, `width`, 3) at scale 1."""
    canvas = Canvas(width, STATUS, style=style)
    canvas.text((MARGIN, 34), left, 24, canvas.palette.muted)
    canvas.text((width - MARGIN, 34), right, 24, anchor="rs")
    return canvas.to_array()


def draw_bar(canvas: Canvas, start: Point, end: Point, radius: float, colour: Colour) -> None:
    """Draw a thick line with round ends."""
    along = (end[0] - start[0], end[1] - start[1])
    size = math.hypot(*along)
    u, v = along[0] / size * radius, along[1] / size * radius
    canvas.polygon(
        [
            (start[0] - v, start[1] + u),
            (start[0] + v, start[1] - u),
            (end[0] + v, end[1] - u),
            (end[0] - v, end[1] + u),
        ],
        colour,
    )
    canvas.disc(start, radius, colour)
    canvas.disc(end, radius, colour)


def draw_dashes(canvas: Canvas, start: Point, end: Point, colour: Colour) -> None:
    """Draw a straight line of dashes 7 pixels long and 7 apart."""
    size = math.dist(start, end)
    u, v = (end[0] - start[0]) / size, (end[1] - start[1]) / size
    for at in range(0, int(size), 14):
        stop = min(at + 7.0, size)
        canvas.line((start[0] + at * u, start[1] + at * v, start[0] + stop * u, start[1] + stop * v), colour, 2.0)


def draw_arrow(canvas: Canvas, points: Sequence[Point], colour: Colour, width: float = 3.0) -> None:
    """Draw a line through at least two `points` with a head, three times as wide, beyond the last."""
    canvas.line(points, colour, width)
    (x0, y0), (x, y) = points[-2:]
    size = math.hypot(x - x0, y - y0)
    if size > 0:
        u, v = (x - x0) / size * 1.6 * width, (y - y0) / size * 1.6 * width
        canvas.polygon([(x + 1.6 * u, y + 1.6 * v), (x - v, y + u), (x + v, y - u)], colour)


def draw_turn(canvas: Canvas, centre: Point, radius: float, heading: float, sweep: float, colour: Colour) -> None:
    """Draw an arrow around `centre` that shows an angular velocity.

    Args:
        canvas: Canvas to draw on.
        centre: Centre of the arc.
        radius: Radius of the arc in pixels.
        heading: Angle in radians at which the arc starts, counter-clockwise from straight right.
        sweep: Angle of the arc in radians, negative for clockwise. Arcs shorter than 0.05 are not drawn.
        colour: Colour of the arrow.
    """
    if abs(sweep) < 0.05:
        return
    angles = [heading + sweep * k / 24 for k in range(25)]
    points = [(centre[0] + radius * math.cos(a), centre[1] - radius * math.sin(a)) for a in angles]
    draw_arrow(canvas, points, colour)
