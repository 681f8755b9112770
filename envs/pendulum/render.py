"""Draws one world of Pendulum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.envs.pendulum.spec import MAX_SPEED
from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.frame import Panel, Reading, draw_bar, draw_dashes, draw_turn
from gpu_vecenv.render.style import DEFAULT_STYLE, Style, mix

WIDTH, HEIGHT = 560, 600
PIVOT = (WIDTH / 2, 316.0)
SCALE = 150.0  # pixels a metre
SHORTEST, LONGEST = 60.0, 190.0  # limits of the drawn length of a rod


class Renderer:
    """Pictures of one world: the rod, an arrow for its angular velocity, and the step.

    The dashes show the upright position, the goal. The arrow sweeps the angle that the rod would turn by in
    a quarter of a second.

    Args:
        params: The environment's resolved parameters. The renderer uses `l`, the rod's length in metres, and
            `max_episode_steps`, 0 for no limit.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._panel = Panel("Pendulum", int(params["max_episode_steps"]), WIDTH, HEIGHT, style)
        self._reach = min(LONGEST, max(SHORTEST, float(params["l"]) * SCALE))
        self._empty = self._draw_empty()

    def reset(self) -> None:
        """Do nothing: no data are kept between frames."""

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `state` of shape (2,): the angle from
                upright in radians, positive counter-clockwise and not wrapped, and its velocity; and the
                scalar `t`.

        Returns:
            The picture, uint8 of shape (600, 560, 3) at scale 1.
        """
        angle, speed = (float(v) for v in state["state"])
        heading = angle + math.pi / 2
        tip = (PIVOT[0] + self._reach * math.cos(heading), PIVOT[1] - self._reach * math.sin(heading))
        canvas = self._empty.copy()
        draw_bar(canvas, PIVOT, tip, 14.0, canvas.palette.page)
        draw_bar(canvas, PIVOT, tip, 12.0, canvas.palette.vermilion)
        draw_turn(canvas, PIVOT, 0.6 * self._reach, heading, 0.25 * speed, canvas.palette.sky)
        canvas.disc(PIVOT, 6.0, canvas.palette.ink)
        from_top = math.degrees(math.remainder(angle, 2 * math.pi))
        readings = (
            Reading("angle", f"{from_top:+z.0f}\N{DEGREE SIGN}"),
            Reading("speed", f"{speed:+.1f} rad/s", abs(speed) >= MAX_SPEED),
        )
        self._panel.write(canvas, int(state["t"]), readings)
        return canvas.to_array()

    def _draw_empty(self) -> Canvas:
        canvas = self._panel.empty()
        x, y = PIVOT
        canvas.ring(PIVOT, self._reach, canvas.palette.grid, 1.5)
        for hour in range(12):
            u, v = math.cos(hour * math.pi / 6), math.sin(hour * math.pi / 6)
            inner, outer = self._reach - 5, self._reach + 5
            canvas.line((x + inner * u, y + inner * v, x + outer * u, y + outer * v), canvas.palette.border, 2.0)
        draw_dashes(canvas, (x, y), (x, y - self._reach), canvas.palette.green)
        canvas.disc((x, y - self._reach), 16.0, mix(canvas.palette.green, canvas.palette.surface, 0.3))
        canvas.ring((x, y - self._reach), 16.0, canvas.palette.green, 2.0)
        return canvas
