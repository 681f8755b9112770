"""Draws one world of Acrobot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.envs.acrobot.spec import MAX_VEL_1, MAX_VEL_2
from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.frame import Panel, Reading, draw_bar, draw_dashes, draw_turn
from gpu_vecenv.render.style import DEFAULT_STYLE, Style, mix

WIDTH, HEIGHT = 600, 640
SCALE = 112.0  # pixels a metre
PIVOT = (WIDTH / 2, 340.0)
LINE = PIVOT[1] - SCALE  # the goal: the end of the second link is above this line


class Renderer:
    """Pictures of one world: two links that hang from a pivot, the line to reach, and the step.

    Arrows around the joints show the angular velocities, half a turn for the largest. Both links are drawn
    one metre long, as in the rule that ends an episode. An end above the line takes the colour of a mark.

    Args:
        params: The environment's resolved parameters. The renderer uses `max_episode_steps`, 0 for no limit.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._panel = Panel("Acrobot", int(params["max_episode_steps"]), WIDTH, HEIGHT, style)
        self._empty = self._draw_empty()

    def reset(self) -> None:
        """Do nothing: no data are kept between frames."""

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `state` of shape (4,): the angle of the
                first link from the downward vertical, the angle of the second link from the first, both in
                radians and positive counter-clockwise, and their velocities; and the scalar `t`.

        Returns:
            The picture, uint8 of shape (640, 600, 3) at scale 1.
        """
        first, second, *speeds = (float(v) for v in state["state"])
        headings = (first - math.pi / 2, first + second - math.pi / 2)
        joints = [PIVOT]
        for heading in headings:
            x, y = joints[-1]
            joints.append((x + SCALE * math.cos(heading), y - SCALE * math.sin(heading)))
        height = -math.cos(first) - math.cos(first + second)

        canvas = self._empty.copy()
        for joint, end, colour in zip(joints[:2], joints[1:], (canvas.palette.sky, canvas.palette.vermilion), strict=True):
            draw_bar(canvas, joint, end, 10.0, canvas.palette.page)
            draw_bar(canvas, joint, end, 8.0, colour)
        limits = (MAX_VEL_1, MAX_VEL_2)
        for joint, heading, speed, limit in zip(joints[:2], headings, speeds, limits, strict=True):
            canvas.disc(joint, 5.0, canvas.palette.ink)
            draw_turn(canvas, joint, 30.0, heading, math.pi * speed / limit, canvas.palette.ink)
        canvas.disc(joints[2], 12.0, canvas.palette.page)
        canvas.disc(joints[2], 10.0, canvas.palette.mark if height > 1 else canvas.palette.ink)
        readings = (
            Reading("height", f"{height:+.2f} m", height > 1),
            Reading("bend", f"{math.degrees(second):+z.0f}\N{DEGREE SIGN}"),
        )
        self._panel.write(canvas, int(state["t"]), readings)
        return canvas.to_array()

    def _draw_empty(self) -> Canvas:
        canvas = self._panel.empty()
        canvas.rectangle(0, self._panel.top, WIDTH, LINE, mix(canvas.palette.green, canvas.palette.surface, 0.12))
        draw_dashes(canvas, (4.0, LINE), (WIDTH, LINE), canvas.palette.green)
        canvas.ring(PIVOT, 2 * SCALE, canvas.palette.grid, 1.5)
        canvas.line((PIVOT[0] - 60, PIVOT[1], PIVOT[0] + 60, PIVOT[1]), canvas.palette.border, 4.0)
        return canvas
