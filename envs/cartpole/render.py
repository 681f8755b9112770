"""Draws one world of CartPole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.frame import FOOTER, HEADER, Panel, Reading, draw_bar, draw_dashes
from gpu_vecenv.render.style import DEFAULT_STYLE, Style, mix

WIDTH, HEIGHT = 720, 480
AREA_TOP, AREA_BOTTOM = HEADER, HEIGHT - FOOTER
TRACK = 352.0  # height of the rail the cart rolls on
CART_WIDTH, CART_HEIGHT, WHEEL = 84.0, 42.0, 11.0
CART_TOP = TRACK - 2 * WHEEL - CART_HEIGHT + 6.0
HINGE = CART_TOP + 2.0
SCALE = 120.0  # pixels a unit of length

SHORTEST, LONGEST = 12.0, 180.0  # limits of the drawn length of a pole

POSITION_LIMIT = 2.4  # the constants of Gymnasium's CartPole-v1
ANGLE_LIMIT = math.radians(12.0)


class Renderer:
    """Pictures of one world: cart and pole on a rail, the limits that end an episode, and the step.

    The wedge behind the pole spans the allowed angles. A value beyond its limit takes the colour of a mark.

    Args:
        params: The environment's resolved parameters. The renderer uses `length`, half the pole's length in metres,
            and `max_episode_steps`, 0 for no limit.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._panel = Panel("CartPole", int(params["max_episode_steps"]), WIDTH, HEIGHT, style)
        self._reach = min(LONGEST, max(SHORTEST, 2 * float(params["length"]) * SCALE))
        self._empty = self._draw_empty()

    def reset(self) -> None:
        """Do nothing: no data are kept between frames."""

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `state` of shape (4,): position,
                velocity, angle in radians (positive to the right) and angular velocity, and the scalar `t`.

        Returns:
            The picture, uint8 of shape (480, 720, 3) at scale 1.
        """
        position, _, angle, _ = (float(v) for v in state["state"])
        canvas = self._empty.copy()
        x = WIDTH / 2 + position * SCALE
        self._draw_cart(canvas, x, angle, out=abs(position) > POSITION_LIMIT)
        readings = (
            Reading("position", f"{position:+.2f}", abs(position) > POSITION_LIMIT),
            Reading("angle", f"{math.degrees(angle):+.1f}\N{DEGREE SIGN}", abs(angle) > ANGLE_LIMIT),
        )
        self._panel.write(canvas, int(state["t"]), readings)
        return canvas.to_array()

    def _draw_empty(self) -> Canvas:
        canvas = self._panel.empty()
        left, right = WIDTH / 2 - POSITION_LIMIT * SCALE, WIDTH / 2 + POSITION_LIMIT * SCALE
        beyond = mix(canvas.palette.vermilion, canvas.palette.surface, 0.1)
        canvas.rectangle(0, AREA_TOP, left, AREA_BOTTOM, beyond)
        canvas.rectangle(right, AREA_TOP, WIDTH, AREA_BOTTOM, beyond)
        for edge in (left, right):
            draw_dashes(canvas, (edge, AREA_TOP + 4), (edge, AREA_BOTTOM), canvas.palette.vermilion)
        canvas.rectangle(0, TRACK, WIDTH, TRACK + 5, canvas.palette.border)
        for metre in range(-2, 3):
            at = WIDTH / 2 + metre * SCALE
            canvas.line((at, TRACK + 12, at, TRACK + 20), canvas.palette.border, 2.0)
            canvas.text((at, TRACK + 38), f"{metre:+d}" if metre else "0", 14, canvas.palette.muted, "ms")
        return canvas

    def _draw_cart(self, canvas: Canvas, x: float, angle: float, out: bool) -> None:
        reach = self._reach
        wedge = [(x, HINGE)]
        for k in range(13):
            a = ANGLE_LIMIT * (k / 6 - 1)
            wedge.append((x + 1.12 * reach * math.sin(a), HINGE - 1.12 * reach * math.cos(a)))
        canvas.polygon(wedge, mix(canvas.palette.sky, canvas.palette.surface, 0.12))

        for side in (-0.3, 0.3):
            centre = (x + side * CART_WIDTH, TRACK - WHEEL)
            canvas.disc(centre, WHEEL, canvas.palette.border)
            canvas.disc(centre, 4.0, canvas.palette.page)
        cart = canvas.palette.mark if out else canvas.palette.sky
        left, right = x - CART_WIDTH / 2, x + CART_WIDTH / 2
        canvas.rectangle(left, CART_TOP, right, CART_TOP + CART_HEIGHT, cart, corner=8)

        pole = canvas.palette.mark if abs(angle) > ANGLE_LIMIT else canvas.palette.vermilion
        tip = (x + reach * math.sin(angle), HINGE - reach * math.cos(angle))
        draw_bar(canvas, (x, HINGE), tip, 8.0, canvas.palette.page)
        draw_bar(canvas, (x, HINGE), tip, 6.5, pole)
        canvas.disc((x, HINGE), 4.0, canvas.palette.ink)
