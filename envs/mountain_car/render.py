"""Draws one world of MountainCar."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.envs.mountain_car.spec import GOAL_POSITION, MAX_POSITION, MAX_SPEED, MIN_POSITION
from gpu_vecenv.render.expressions import Number, Operand, blend, choose, cos, field, sin, sqrt
from gpu_vecenv.render.frame import Panel, Reading, draw_arrow
from gpu_vecenv.render.scene import At, Pictures, Scene, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

WIDTH, HEIGHT = 720, 560
MARGIN = 48.0  # width of the road drawn beyond its ends
SCALE = (WIDTH - 2 * MARGIN) / (MAX_POSITION - MIN_POSITION)  # pixels a unit, across and up
FLOOR = 519.0  # y of height 0, below the drawing area
WHEEL, BODY = 10.0, 54.0


class Renderer(SceneRenderer):
    """Pictures of one world: the car in its valley, the flag, an arrow for the velocity, and the step.

    The arrow is as long as the car at the largest velocity. A car that has arrived takes the colour of a mark.
    """

    title = "MountainCar"
    goal = GOAL_POSITION

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the picture, which depends on `goal_velocity`, and `max_episode_steps`, 0 for no limit."""
        panel = Panel(self.title, int(params["max_episode_steps"]), WIDTH, HEIGHT)
        position, velocity = field("state", 0), field("state", 1)
        # The state is float32, so the goal must be float32, too.
        arrived = (position >= float(np.float32(self.goal))) & (velocity >= float(params["goal_velocity"]))
        scene = panel.empty()
        draw_valley(scene, panel, self.goal)
        draw_car(scene, position, velocity, arrived)
        panel.write(scene, (
            Reading("position", [Written(position, "+.3f")], arrived), Reading("velocity", [Written(velocity, "+.4f")]),
        ))  # fmt: skip
        return Pictures((scene,))


def draw_valley(scene: Scene, panel: Panel, goal: float) -> None:
    """Draw the road with its wall and the flag at the goal."""
    palette, edge = scene.palette, MARGIN / SCALE
    places = np.linspace(MIN_POSITION - edge, MAX_POSITION + edge, 181).tolist()
    road = [on_hill(x, math.sin(3 * x)) for x in places]
    bottom = float(panel.bottom)
    scene.polygon([*road, (float(WIDTH), bottom), (0.0, bottom)], palette.grid)
    scene.line(road, palette.border, 3.0)
    scene.line([on_hill(x, math.sin(3 * x)) for x in places if x >= goal], palette.green, 4.0)
    wall, ground = on_hill(MIN_POSITION, math.sin(3 * MIN_POSITION))
    scene.rectangle(0, panel.top, wall - 0.6 * BODY, ground + 40, blend(palette.border, palette.page, 0.5))
    x, y = on_hill(goal, math.sin(3 * goal))
    scene.line((x, y, x, y - 68), palette.ink, 3.0)
    scene.polygon([(x + 1, y - 69), (x + 34, y - 58), (x + 1, y - 47)], palette.green)


def draw_car(scene: Scene, position: Number, velocity: Number, arrived: Number) -> None:
    """Draw the car on the road and the arrow of its velocity."""
    palette, (x, y) = scene.palette, on_hill(position, sin(3 * position))
    slope = 3 * 0.45 * cos(3 * position)
    u, v = 1 / sqrt(1 + slope * slope), -slope / sqrt(1 + slope * slope)  # along the road, in pixels

    def at(along: Operand, up: float) -> At:
        return x + along * u + up * v, y + along * v - up * u

    half = BODY / 2
    for grow, colour in ((2.0, palette.page), (0.0, choose(arrived, palette.mark, palette.sky))):
        hull = [(-half, 9.0), (half, 9.0), (half, 24.0), (17.0, 24.0)]
        hull += [(10.0, 37.0), (-13.0, 37.0), (-19.0, 24.0), (-half, 24.0)]
        scene.polygon([at(a + math.copysign(grow, a), b + math.copysign(grow, b - 16)) for a, b in hull], colour)
    for along in (-15.0, 15.0):
        scene.disc(at(along, WHEEL), WHEEL, palette.page)
        scene.disc(at(along, WHEEL), WHEEL - 2.5, palette.muted)
    length = velocity * (BODY / MAX_SPEED)
    draw_arrow(scene, [at(0.0, 50.0), at(length, 50.0)], palette.vermilion, abs(length) >= 1)


def on_hill(position: Any, sine: Any) -> Any:
    """Point of the road in pixels; its height is 0.45 sin(3 x) + 0.55, as in Gymnasium's pictures. `sine` is sin(3 x)."""
    height = 0.45 * sine + 0.55
    return MARGIN + (position - MIN_POSITION) * SCALE, FLOOR - height * SCALE
