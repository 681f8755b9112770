"""Draws one world of Pendulum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.pendulum.spec import MAX_SPEED
from gpu_vecenv.render.expressions import blend, cos, field, floor, sin
from gpu_vecenv.render.frame import Panel, Reading, draw_bar, draw_dashes, draw_turn
from gpu_vecenv.render.scene import Pictures, Scene, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

WIDTH, HEIGHT = 560, 600
PIVOT = (WIDTH / 2, 316.0)
SCALE = 150.0  # pixels a metre
SHORTEST, LONGEST = 60.0, 190.0  # limits of the drawn length of a rod


class Renderer(SceneRenderer):
    """Pictures of one world: the rod, an arrow for its angular velocity, and the step.

    The dashes show the upright position, the goal. The arrow sweeps the angle that the rod would turn by in
    a quarter of a second.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the picture, which depends on `l`, the rod's length in metres, and `max_episode_steps`, 0 for no limit."""
        panel = Panel("Pendulum", int(params["max_episode_steps"]), WIDTH, HEIGHT)
        reach = min(LONGEST, max(SHORTEST, float(params["l"]) * SCALE))
        angle, speed = field("state", 0), field("state", 1)
        heading = angle + math.pi / 2
        tip = (PIVOT[0] + reach * cos(heading), PIVOT[1] - reach * sin(heading))
        scene = panel.empty()
        draw_goal(scene, reach)
        draw_bar(scene, PIVOT, tip, 14.0, scene.palette.page)
        draw_bar(scene, PIVOT, tip, 12.0, scene.palette.vermilion)
        draw_turn(scene, PIVOT, 0.6 * reach, heading, 0.25 * speed, scene.palette.sky)
        scene.disc(PIVOT, 6.0, scene.palette.ink)
        turns = angle / (2 * math.pi)
        from_top = 360 * (turns - floor(turns + 0.5))
        panel.write(scene, (
            Reading("angle", [Written(from_top, "+z.0f"), "\N{DEGREE SIGN}"]),
            Reading("speed", [Written(speed, "+.1f"), " rad/s"], abs(speed) >= MAX_SPEED),
        ))  # fmt: skip
        return Pictures((scene,))


def draw_goal(scene: Scene, reach: float) -> None:
    """Draw a dial with the upright position."""
    palette, (x, y) = scene.palette, PIVOT
    scene.ring(PIVOT, reach, palette.grid, 1.5)
    for hour in range(12):
        u, v = math.cos(hour * math.pi / 6), math.sin(hour * math.pi / 6)
        inner, outer = reach - 5, reach + 5
        scene.line((x + inner * u, y + inner * v, x + outer * u, y + outer * v), palette.border, 2.0)
    draw_dashes(scene, (x, y), (x, y - reach), palette.green)
    scene.disc((x, y - reach), 16.0, blend(palette.green, palette.surface, 0.3))
    scene.ring((x, y - reach), 16.0, palette.green, 2.0)
