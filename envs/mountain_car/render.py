"""Draws one world of MountainCar."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.envs.mountain_car.spec import GOAL_POSITION, MAX_POSITION, MAX_SPEED, MIN_POSITION
from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.frame import Panel, Reading, draw_arrow
from gpu_vecenv.render.style import DEFAULT_STYLE, Style, mix

WIDTH, HEIGHT = 720, 560
MARGIN = 48.0  # width of the road drawn beyond its ends
SCALE = (WIDTH - 2 * MARGIN) / (MAX_POSITION - MIN_POSITION)  # pixels a unit, across and up
FLOOR = 519.0  # y of height 0, below the drawing area
WHEEL, BODY = 10.0, 54.0


class Renderer:
    """Pictures of one world: the car in its valley, the flag, an arrow for the velocity, and the step.

    The arrow is as long as the car at the largest velocity. A car that has arrived takes the colour of a mark.

    Args:
        params: The environment's resolved parameters. The renderer uses `goal_velocity`, and `max_episode_steps`, 0
            for no limit.
        style: Colours and scale.
    """

    title = "MountainCar"
    goal = GOAL_POSITION

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._goal_velocity = float(params["goal_velocity"])
        self._panel = Panel(self.title, int(params["max_episode_steps"]), WIDTH, HEIGHT, style)
        self._empty = self._draw_empty()

    def reset(self) -> None:
        """Do nothing: no data are kept between frames."""

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `state` of shape (2,): position and
                velocity, and the scalar `t`.

        Returns:
            The picture, uint8 of shape (560, 720, 3) at scale 1.
        """
        position, velocity = (float(v) for v in state["state"])
        # The state is float32, so the goal must be float32, too.
        arrived = position >= float(np.float32(self.goal)) and velocity >= self._goal_velocity
        canvas = self._empty.copy()
        self._draw_car(canvas, position, velocity, arrived)
        readings = (Reading("position", f"{position:+.3f}", arrived), Reading("velocity", f"{velocity:+.4f}"))
        self._panel.write(canvas, int(state["t"]), readings)
        return canvas.to_array()

    def _draw_empty(self) -> Canvas:
        canvas = self._panel.empty()
        edge = MARGIN / SCALE
        places = np.linspace(MIN_POSITION - edge, MAX_POSITION + edge, 181).tolist()
        road = [on_hill(x) for x in places]
        bottom = float(self._panel.bottom)
        canvas.polygon([*road, (float(WIDTH), bottom), (0.0, bottom)], canvas.palette.grid)
        canvas.line(road, canvas.palette.border, 3.0)
        canvas.line([on_hill(x) for x in places if x >= self.goal], canvas.palette.green, 4.0)
        wall, ground = on_hill(MIN_POSITION)
        canvas.rectangle(0, self._panel.top, wall - 0.6 * BODY, ground + 40, mix(canvas.palette.border, canvas.palette.page, 0.5))
        x, y = on_hill(self.goal)
        canvas.line((x, y, x, y - 68), canvas.palette.ink, 3.0)
        canvas.polygon([(x + 1, y - 69), (x + 34, y - 58), (x + 1, y - 47)], canvas.palette.green)
        return canvas

    def _draw_car(self, canvas: Canvas, position: float, velocity: float, arrived: bool) -> None:
        x, y = on_hill(position)
        slope = math.atan(3 * 0.45 * math.cos(3 * position))
        u, v = math.cos(slope), -math.sin(slope)  # along the road, in pixels

        def at(along: float, up: float) -> Point:
            return x + along * u + up * v, y + along * v - up * u

        half = BODY / 2
        for grow, colour in ((2.0, canvas.palette.page), (0.0, canvas.palette.mark if arrived else canvas.palette.sky)):
            hull = [(-half, 9.0), (half, 9.0), (half, 24.0), (17.0, 24.0)]
            hull += [(10.0, 37.0), (-13.0, 37.0), (-19.0, 24.0), (-half, 24.0)]
            canvas.polygon([at(a + math.copysign(grow, a), b + math.copysign(grow, b - 16)) for a, b in hull], colour)
        for along in (-15.0, 15.0):
            canvas.disc(at(along, WHEEL), WHEEL, canvas.palette.page)
            canvas.disc(at(along, WHEEL), WHEEL - 2.5, canvas.palette.muted)
        length = BODY * velocity / MAX_SPEED
        if abs(length) >= 1:
            draw_arrow(canvas, [at(0.0, 50.0), at(length, 50.0)], canvas.palette.vermilion)


def on_hill(position: float) -> Point:
    """Point of the road in pixels; its height is 0.45 sin(3 x) + 0.55, as in Gymnasium's pictures."""
    height = 0.45 * math.sin(3 * position) + 0.55
    return MARGIN + (position - MIN_POSITION) * SCALE, FLOOR - height * SCALE
