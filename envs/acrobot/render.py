"""Draws one world of Acrobot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.acrobot.spec import MAX_VEL_1, MAX_VEL_2
from gpu_vecenv.render.expressions import Number, blend, choose, cos, field, sin
from gpu_vecenv.render.frame import Panel, Reading, draw_bar, draw_dashes, draw_turn
from gpu_vecenv.render.scene import Pictures, Scene, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

WIDTH, HEIGHT = 600, 640
SCALE = 112.0  # pixels a metre
PIVOT = (WIDTH / 2, 340.0)
LINE = PIVOT[1] - SCALE  # the goal: the end of the second link is above this line


class Renderer(SceneRenderer):
    """Pictures of one world: two links that hang from a pivot, the line to reach, and the step.

    Arrows around the joints show the angular velocities, half a turn for the largest. Both links are drawn
    one metre long, as in the rule that ends an episode. An end above the line takes the colour of a mark.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the picture, which depends on `max_episode_steps`, 0 for no limit."""
        panel = Panel("Acrobot", int(params["max_episode_steps"]), WIDTH, HEIGHT)
        first, second = field("state", 0), field("state", 1)
        height = -cos(first) - cos(first + second)
        scene = panel.empty()
        draw_goal(scene, panel.top)
        draw_links(scene, first, second, height > 1)
        panel.write(scene, (
            Reading("height", [Written(height, "+.2f"), " m"], height > 1),
            Reading("bend", [Written(second * (180 / math.pi), "+z.0f"), "\N{DEGREE SIGN}"]),
        ))  # fmt: skip
        return Pictures((scene,))


def draw_goal(scene: Scene, top: float) -> None:
    """Draw the line to reach, the way of the end, and the beam that holds the pivot."""
    palette = scene.palette
    scene.rectangle(0, top, WIDTH, LINE, blend(palette.green, palette.surface, 0.12))
    draw_dashes(scene, (4.0, LINE), (WIDTH, LINE), palette.green)
    scene.ring(PIVOT, 2 * SCALE, palette.grid, 1.5)
    scene.line((PIVOT[0] - 60, PIVOT[1], PIVOT[0] + 60, PIVOT[1]), palette.border, 4.0)


def draw_links(scene: Scene, first: Number, second: Number, arrived: Number) -> None:
    """Draw both links, arrows for their velocities, and the end."""
    palette, headings = scene.palette, (first - math.pi / 2, first + second - math.pi / 2)
    joints: list[Any] = [PIVOT]
    for heading in headings:
        x, y = joints[-1]
        joints.append((x + SCALE * cos(heading), y - SCALE * sin(heading)))
    for joint, end, colour in zip(joints[:2], joints[1:], (palette.sky, palette.vermilion), strict=True):
        draw_bar(scene, joint, end, 10.0, palette.page)
        draw_bar(scene, joint, end, 8.0, colour)
    for k, (joint, limit) in enumerate(zip(joints[:2], (MAX_VEL_1, MAX_VEL_2), strict=True)):
        scene.disc(joint, 5.0, palette.ink)
        draw_turn(scene, joint, 30.0, headings[k], field("state", 2 + k) * (math.pi / limit), palette.ink)
    scene.disc(joints[2], 12.0, palette.page)
    scene.disc(joints[2], 10.0, choose(arrived, palette.mark, palette.ink))
