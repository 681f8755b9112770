"""Draws one world of the robot warehouse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.rware.floor import floor_of
from gpu_vecenv.render.controls import Controls, Held, toward
from gpu_vecenv.render.expressions import Ink, Number, Operand, blend, choose, field, total
from gpu_vecenv.render.frame import make_legend, make_status, steps_of, write_status
from gpu_vecenv.render.scene import At, Glyph, Pictures, Scene, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

MOST, NARROWEST = 640, 648  # pixels of the longer side of the floor, at most, and of the width, at least, for the legend
LARGEST_CELL = 44.0
MARGIN = 24.0
STEPS = ((0.0, -1.0), (0.0, 1.0), (-1.0, 0.0), (1.0, 0.0))  # up, down, left, right, in the picture


class Renderer(SceneRenderer):
    """Pictures of one world, with the shapes of rware's viewer: shelves are squares, robots hexagons with a line ahead.

    Goals have a "G". A requested shelf is green, a loaded robot red; other robots are orange. A ring marks a cell of several
    robots, with which `collision="end"` ends an episode.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the pictures, which depend on the floor plan, `n_agents`, `request_queue_size` and `max_steps`."""
        plan, robots, queue = floor_of(params), int(params["n_agents"]), int(params["request_queue_size"])
        cell = min(LARGEST_CELL, MOST / max(plan.rows, plan.cols))
        width = max(NARROWEST, even(plan.cols * cell + 2 * MARGIN))
        left = (width - plan.cols * cell) / 2

        def centre(kind: str, index: Operand) -> At:
            return left + (field(kind, index, 0) + 0.5) * cell, (field(kind, index, 1) + 0.5) * cell

        floor = draw_floor(plan, cell, left, width)
        with floor.each(len(plan.homes)) as i:
            requested = total(queue, lambda k: field("request_queue", k).is_(i)) > 0
            draw_shelf(floor, centre("shelf_pos", i), 0.43 * cell, requested)
        with floor.each(robots) as i:
            loaded, direction = field("carrying", i) >= 0, field("agent_dir", i)
            draw_robot(floor, centre("agent_pos", i), cell / 3, loaded, direction)
        with floor.each(robots) as i:
            shared = total(robots, lambda k: is_one_cell(i, k)) > 1
            floor.ring(centre("agent_pos", i), 0.48 * cell, floor.palette.mark, 3.0, shared)
        status, idle = make_status(width, steps_of(int(params["max_steps"]), ",d")), field("inactive_steps")
        delivered = (field("t") > 0) & idle.is_(0)
        write_status(status, "delivered", delivered)
        write_status(status, [Written(idle, ",d"), " steps since a delivery"], ~delivered)
        return Pictures((status, floor, make_legend(LEGEND, width)), (status, floor), LEGEND, stacked=True)

    def controls(self, params: Mapping[str, Any], held: Held) -> Mapping[str, Controls]:
        """Return the controls of robots: up moves forward, left and right turn, and down takes the shelf or puts it down."""
        return {"agent": Controls([toward(held, ((0, 0), (0, 1), (-1, 0), (1, 0), (0, -1)))])}


def is_one_cell(one: Operand, other: Operand) -> Number:
    """Return 1 if two robots are in one cell."""
    x, y = (field("agent_pos", one, axis).is_(field("agent_pos", other, axis)) for axis in (0, 1))
    return x & y


def draw_floor(plan: Any, cell: float, left: float, width: float) -> Scene:
    """Draw the cells and the goals."""
    rows, cols = plan.rows, plan.cols
    scene = Scene(width, even(rows * cell + MARGIN))
    right, bottom = left + cols * cell, rows * cell
    scene.rectangle(left, 0, right, bottom, scene.palette.surface)
    for x, y in plan.goals.tolist():
        across, down = left + x * cell, y * cell
        scene.rectangle(across, down, across + cell, down + cell, scene.palette.faded)
        scene.text((across + cell / 2, down + cell / 2), "G", 0.6 * cell, scene.palette.page, "mm")
    for k in range(cols + 1):
        scene.line((left + k * cell, 0, left + k * cell, bottom), scene.palette.grid)
    for k in range(rows + 1):
        scene.line((left, k * cell, right, k * cell), scene.palette.grid)
    return scene


def even(size: float) -> int:
    """Return the even number of pixels at or above a size. Videos have even sizes."""
    return 2 * math.ceil(size / 2)


def shelf_ink(palette: Any, requested: Operand) -> Ink:
    """Return the colour of a shelf."""
    ink: Ink = choose(requested, palette.green, blend(palette.sky, palette.surface, 0.5))
    return ink


def robot_ink(palette: Any, loaded: Operand) -> Ink:
    """Return the colour of a robot."""
    ink: Ink = choose(loaded, palette.vermilion, blend(palette.mark, palette.vermilion, 0.6))
    return ink


def draw_shelf(scene: Scene, centre: At, size: float, requested: Operand) -> None:
    """Draw a square that reaches `size` pixels to each side."""
    x, y = centre
    scene.rectangle(x - size, y - size, x + size, y + size, shelf_ink(scene.palette, requested))


def draw_robot(scene: Scene, centre: At, radius: float, loaded: Operand, direction: Number) -> None:
    """Draw a hexagon with a line from its middle ahead: 0 up, 1 down, 2 left, 3 right."""
    x, y = centre
    corners = [(x + radius * math.cos(k * math.pi / 3), y + radius * math.sin(k * math.pi / 3)) for k in range(6)]
    scene.polygon(corners, robot_ink(scene.palette, loaded))
    for k, (dx, dy) in enumerate(STEPS):
        ahead = (x, y, x + dx * radius, y + dy * radius)
        scene.line(ahead, scene.palette.page, max(2.0, 0.2 * radius), direction.is_(k))


RIGHT = Number(3)
LEGEND = (
    Glyph("shelf", lambda scene, at: draw_shelf(scene, at, 10.0, 0)),
    Glyph("requested", lambda scene, at: draw_shelf(scene, at, 10.0, 1)),
    Glyph("robot", lambda scene, at: draw_robot(scene, at, 10.0, 0, RIGHT)),
    Glyph("loaded", lambda scene, at: draw_robot(scene, at, 10.0, 1, RIGHT)),
)
"""Names of the shapes on the floor."""
