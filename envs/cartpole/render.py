"""Draws one world of CartPole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.render import PALETTE, Canvas, Colour, Point, mix

WIDTH, HEIGHT = 720, 480
STAGE_TOP, STAGE_BOTTOM = 88, 424
TRACK = 352.0  # height of the rail the cart rolls on
CART_WIDTH, CART_HEIGHT, WHEEL = 84.0, 42.0, 11.0
CART_TOP = TRACK - 2 * WHEEL - CART_HEIGHT + 6.0
HINGE = CART_TOP + 2.0
SCALE = 120.0  # pixels a unit of length

POLE_LENGTH = 1.0  # the constants of Gymnasium's CartPole-v1
POSITION_LIMIT = 2.4
ANGLE_LIMIT = math.radians(12.0)


class Renderer:
    """Pictures of one world: cart and pole on a rail, the limits that end an episode, and the step.

    The wedge behind the pole spans the allowed angles. What is beyond its limit turns yellow.

    Args:
        params: The environment's resolved parameters; read is `max_episode_steps`, 0 for no limit.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._limit = int(params["max_episode_steps"])
        self._empty = self._draw_empty()

    def reset(self) -> None:
        """Nothing is kept between frames."""

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `state` of shape (4,), that is position,
                velocity, angle in radians (positive to the right) and angular velocity, and the scalar `t`.

        Returns:
            The picture, uint8 of shape (480, 720, 3).
        """
        position, _, angle, _ = (float(v) for v in state["state"])
        time = int(state["t"])
        canvas = self._empty.copy()
        x = WIDTH / 2 + position * SCALE
        self._draw_cart(canvas, x, angle, out=abs(position) > POSITION_LIMIT)
        self._draw_readings(canvas, time, position, math.degrees(angle))
        return canvas.to_array()

    def _draw_empty(self) -> Canvas:
        canvas = Canvas(WIDTH, HEIGHT, PALETTE.page)
        canvas.rectangle(0, STAGE_TOP, WIDTH, STAGE_BOTTOM, PALETTE.surface)
        canvas.text((24, 52), "CartPole", 30)
        left, right = WIDTH / 2 - POSITION_LIMIT * SCALE, WIDTH / 2 + POSITION_LIMIT * SCALE
        beyond = mix(PALETTE.vermilion, PALETTE.surface, 0.1)
        canvas.rectangle(0, STAGE_TOP, left, STAGE_BOTTOM, beyond)
        canvas.rectangle(right, STAGE_TOP, WIDTH, STAGE_BOTTOM, beyond)
        for edge in (left, right):
            for y in range(STAGE_TOP + 4, STAGE_BOTTOM, 14):
                canvas.line((edge, y, edge, y + 7), PALETTE.vermilion, 2.0)
        canvas.rectangle(0, TRACK, WIDTH, TRACK + 5, PALETTE.border)
        for metre in range(-2, 3):
            at = WIDTH / 2 + metre * SCALE
            canvas.line((at, TRACK + 12, at, TRACK + 20), PALETTE.border, 2.0)
            canvas.text((at, TRACK + 38), f"{metre:+d}" if metre else "0", 14, PALETTE.muted, "ms")
        return canvas

    def _draw_cart(self, canvas: Canvas, x: float, angle: float, out: bool) -> None:
        reach = POLE_LENGTH * SCALE
        wedge = [(x, HINGE)]
        for k in range(13):
            a = ANGLE_LIMIT * (k / 6 - 1)
            wedge.append((x + 1.12 * reach * math.sin(a), HINGE - 1.12 * reach * math.cos(a)))
        canvas.polygon(wedge, mix(PALETTE.sky, PALETTE.surface, 0.12))

        for side in (-0.3, 0.3):
            centre = (x + side * CART_WIDTH, TRACK - WHEEL)
            canvas.disc(centre, WHEEL, PALETTE.border)
            canvas.disc(centre, 4.0, PALETTE.page)
        cart = PALETTE.yellow if out else PALETTE.sky
        left, right = x - CART_WIDTH / 2, x + CART_WIDTH / 2
        canvas.rectangle(left, CART_TOP, right, CART_TOP + CART_HEIGHT, cart, corner=8)

        pole = PALETTE.yellow if abs(angle) > ANGLE_LIMIT else PALETTE.vermilion
        tip = (x + reach * math.sin(angle), HINGE - reach * math.cos(angle))
        draw_bar(canvas, (x, HINGE), tip, 8.0, PALETTE.page)
        draw_bar(canvas, (x, HINGE), tip, 6.5, pole)
        canvas.disc((x, HINGE), 4.0, PALETTE.ink)

    def _draw_readings(self, canvas: Canvas, time: int, position: float, degrees: float) -> None:
        steps = f"step {time} / {self._limit}" if self._limit else f"step {time}"
        canvas.text((WIDTH - 24, 52), steps, 24, anchor="rs")
        if self._limit:
            canvas.rectangle(24, 68, WIDTH - 24, 74, PALETTE.grid, corner=3)
            done = min(1.0, time / self._limit)
            canvas.rectangle(24, 68, 24 + done * (WIDTH - 48), 74, PALETTE.ink, corner=3)
        readings = (
            ("position", f"{position:+.2f}", abs(position) > POSITION_LIMIT, 24.0),
            ("angle", f"{degrees:+.1f}\N{DEGREE SIGN}", abs(math.radians(degrees)) > ANGLE_LIMIT, 264.0),
        )
        for name, value, beyond, at in readings:
            canvas.text((at, 458), name, 16, PALETTE.muted)
            canvas.text((at + 150, 458), value, 22, PALETTE.yellow if beyond else PALETTE.ink, "rs")


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
