"""Draws one world of the robot warehouse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.envs.rware.floor import floor_of
from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.frame import draw_status
from gpu_vecenv.render.legend import Entry, draw_legend
from gpu_vecenv.render.style import DEFAULT_STYLE, Colour, Palette, Style, mix

MOST, NARROWEST = 640, 648  # pixels of the longer side of the floor, at most, and of the width, at least, for the legend
LARGEST_CELL = 44.0
MARGIN = 24.0
STEPS = ((0.0, -1.0), (0.0, 1.0), (-1.0, 0.0), (1.0, 0.0))  # up, down, left, right, in the picture


class Renderer:
    """Pictures of one world, with the shapes of rware's viewer: shelves are squares, robots hexagons with a line ahead.

    Goals have a "G". A requested shelf is green, a loaded robot red; other robots are orange. A ring marks a cell of several
    robots, with which `collision="end"` ends an episode.

    Args:
        params: The environment's resolved parameters. The renderer uses the floor plan and `max_steps`.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._style, self._floor, self._limit = style, floor_of(params), int(params["max_steps"])
        self._cell = min(LARGEST_CELL, MOST / max(self._floor.rows, self._floor.cols))
        self._width = max(NARROWEST, even(self._floor.cols * self._cell + 2 * MARGIN))
        self._left = (self._width - self._floor.cols * self._cell) / 2
        self._empty = self._draw_empty()

    def reset(self) -> None:
        """Do nothing: no data are kept between frames."""

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `agent_pos` (R, 2), `agent_dir` (R,) and `carrying` (R,) of R robots,
                `shelf_pos` (S, 2), `request_queue` (Q,), and the scalars `inactive_steps` and `t`.

        Returns:
            The picture, uint8 of shape (H, W, 3); by default (612, 648, 3) at scale 1.
        """
        scene = self.scene(state)
        return np.concatenate([scene, draw_legend(self.legend, scene.shape[1], self._style)])

    def scene(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state without the legend: a part of a picture that has one `legend`.

        Args:
            state: As in `frame`.

        Returns:
            The picture, uint8 of shape (H - 56, W, 3) at scale 1.
        """
        canvas, palette = self._empty.copy(), self._style.palette
        requested = set(np.asarray(state["request_queue"]).tolist())
        for shelf, place in enumerate(np.asarray(state["shelf_pos"]).tolist()):
            draw_shelf(canvas, self._centre(place), 0.43 * self._cell, shelf_colour(palette, shelf in requested))
        places = [tuple(place) for place in np.asarray(state["agent_pos"]).tolist()]
        for place, to, shelf in zip(places, state["agent_dir"], state["carrying"], strict=True):
            draw_robot(canvas, self._centre(place), self._cell / 3, robot_colour(palette, shelf >= 0), int(to))
        for place in {place for place in places if places.count(place) > 1}:
            canvas.ring(self._centre(place), 0.48 * self._cell, palette.mark, 3.0)
        time, idle = int(state["t"]), int(state["inactive_steps"])
        step = f"step {time:,} / {self._limit:,}" if self._limit else f"step {time:,}"
        words = "delivered" if time > 0 and idle == 0 else f"{idle:,} steps since a delivery"
        return np.concatenate([draw_status(self._width, step, words, self._style), canvas.to_array()])

    @property
    def legend(self) -> tuple[Entry, ...]:
        """Names of the shapes in `scene`."""
        return (
            Entry("shelf", lambda canvas, at: draw_shelf(canvas, at, 10.0, shelf_colour(canvas.palette, False))),
            Entry("requested", lambda canvas, at: draw_shelf(canvas, at, 10.0, shelf_colour(canvas.palette, True))),
            Entry("robot", lambda canvas, at: draw_robot(canvas, at, 10.0, robot_colour(canvas.palette, False), 3)),
            Entry("loaded", lambda canvas, at: draw_robot(canvas, at, 10.0, robot_colour(canvas.palette, True), 3)),
        )

    def _centre(self, place: tuple[int, ...] | list[int]) -> Point:
        """Return the middle of a cell, in pixels."""
        x, y = place
        return self._left + (x + 0.5) * self._cell, (y + 0.5) * self._cell

    def _draw_empty(self) -> Canvas:
        rows, cols, cell = self._floor.rows, self._floor.cols, self._cell
        canvas = Canvas(self._width, even(rows * cell + MARGIN), style=self._style)
        left, right, bottom = self._left, self._left + cols * cell, rows * cell
        canvas.rectangle(left, 0, right, bottom, canvas.palette.surface)
        for x, y in self._floor.goals.tolist():
            across, down = left + x * cell, y * cell
            canvas.rectangle(across, down, across + cell, down + cell, canvas.palette.faded)
            canvas.text(self._centre((x, y)), "G", 0.6 * cell, canvas.palette.page, "mm")
        for k in range(cols + 1):
            canvas.line((left + k * cell, 0, left + k * cell, bottom), canvas.palette.grid)
        for k in range(rows + 1):
            canvas.line((left, k * cell, right, k * cell), canvas.palette.grid)
        return canvas


def even(size: float) -> int:
    """Return the even number of pixels at or above a size. Videos have even sizes."""
    return 2 * math.ceil(size / 2)


def shelf_colour(palette: Palette, requested: bool) -> Colour:
    """Return the colour of a shelf."""
    return palette.green if requested else mix(palette.sky, palette.surface, 0.5)


def robot_colour(palette: Palette, loaded: bool) -> Colour:
    """Return the colour of a robot."""
    return palette.vermilion if loaded else mix(palette.mark, palette.vermilion, 0.6)


def draw_shelf(canvas: Canvas, centre: Point, size: float, colour: Colour) -> None:
    """Draw a square that reaches `size` pixels to each side."""
    x, y = centre
    canvas.rectangle(x - size, y - size, x + size, y + size, colour)


def draw_robot(canvas: Canvas, centre: Point, radius: float, colour: Colour, direction: int) -> None:
    """Draw a hexagon with a line from its middle ahead: 0 up, 1 down, 2 left, 3 right."""
    x, y = centre
    angles = [k * math.pi / 3 for k in range(6)]
    canvas.polygon([(x + radius * math.cos(a), y + radius * math.sin(a)) for a in angles], colour)
    dx, dy = STEPS[direction]
    canvas.line((x, y, x + dx * radius, y + dy * radius), canvas.palette.page, max(2.0, 0.2 * radius))
