"""Draws one world of CartPole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpu_vecenv.render.expressions import Number, blend, choose, cos, field, sin
from gpu_vecenv.render.frame import FOOTER, HEADER, Panel, Reading, draw_bar, draw_dashes
from gpu_vecenv.render.scene import Pictures, Scene, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

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


class Renderer(SceneRenderer):
    """Pictures of one world: cart and pole on a rail, the limits that end an episode, and the step.

    The wedge behind the pole spans the allowed angles. A value beyond its limit takes the colour of a mark.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the picture, which depends on `length`, half the pole's length in metres, and `max_episode_steps`."""
        panel = Panel("CartPole", int(params["max_episode_steps"]), WIDTH, HEIGHT)
        reach = min(LONGEST, max(SHORTEST, 2 * float(params["length"]) * SCALE))
        position, angle = field("state", 0), field("state", 2)
        out, fallen = abs(position) > POSITION_LIMIT, abs(angle) > ANGLE_LIMIT
        scene = panel.empty()
        draw_track(scene)
        draw_cart(scene, WIDTH / 2 + position * SCALE, angle, reach, out, fallen)
        panel.write(scene, (
            Reading("position", [Written(position, "+.2f")], out),
            Reading("angle", [Written(angle * (180 / math.pi), "+.1f"), "\N{DEGREE SIGN}"], fallen),
        ))  # fmt: skip
        return Pictures((scene,))


def draw_track(scene: Scene) -> None:
    """Draw the rail with its scale, and the limits of the position."""
    palette, left, right = scene.palette, WIDTH / 2 - POSITION_LIMIT * SCALE, WIDTH / 2 + POSITION_LIMIT * SCALE
    beyond = blend(palette.vermilion, palette.surface, 0.1)
    scene.rectangle(0, AREA_TOP, left, AREA_BOTTOM, beyond)
    scene.rectangle(right, AREA_TOP, WIDTH, AREA_BOTTOM, beyond)
    for edge in (left, right):
        draw_dashes(scene, (edge, AREA_TOP + 4), (edge, AREA_BOTTOM), palette.vermilion)
    scene.rectangle(0, TRACK, WIDTH, TRACK + 5, palette.border)
    for metre in range(-2, 3):
        at = WIDTH / 2 + metre * SCALE
        scene.line((at, TRACK + 12, at, TRACK + 20), palette.border, 2.0)
        scene.text((at, TRACK + 38), f"{metre:+d}" if metre else "0", 14, palette.muted, "ms")


def draw_cart(scene: Scene, x: Number, angle: Number, reach: float, out: Number, fallen: Number) -> None:
    """Draw the cart at `x` with its pole, `reach` pixels long; `out` and `fallen` mark values beyond their limits."""
    palette, wedge = scene.palette, [(x, HINGE)]
    for k in range(13):
        a = ANGLE_LIMIT * (k / 6 - 1)
        wedge.append((x + 1.12 * reach * math.sin(a), HINGE - 1.12 * reach * math.cos(a)))
    scene.polygon(wedge, blend(palette.sky, palette.surface, 0.12))
    for side in (-0.3, 0.3):
        centre = (x + side * CART_WIDTH, TRACK - WHEEL)
        scene.disc(centre, WHEEL, palette.border)
        scene.disc(centre, 4.0, palette.page)
    left, right = x - CART_WIDTH / 2, x + CART_WIDTH / 2
    scene.rectangle(left, CART_TOP, right, CART_TOP + CART_HEIGHT, choose(out, palette.mark, palette.sky), corner=8)
    tip = (x + reach * sin(angle), HINGE - reach * cos(angle))
    draw_bar(scene, (x, HINGE), tip, 8.0, palette.page)
    draw_bar(scene, (x, HINGE), tip, 6.5, choose(fallen, palette.mark, palette.vermilion))
    scene.disc((x, HINGE), 4.0, palette.ink)
