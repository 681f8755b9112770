"""Draws one world of gridworld Tag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpu_vecenv.render.controls import Controls, Held, toward
from gpu_vecenv.render.expressions import Number, Operand, choose, field, smallest, total
from gpu_vecenv.render.frame import draw_axis, draw_time, make_status, steps_of, write_status
from gpu_vecenv.render.scene import At, Glyph, Pictures, Scene, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

HEIGHT = 688
ARENA = HEIGHT  # the arena's picture is a square
RIM = 24
PANEL = 272
LEFT, RIGHT = 8, PANEL - 24  # horizontal edges of the panel's content
CURVE_TOP, CURVE_BOTTOM = 424, 584

SMALLEST_AGENT, LARGEST_AGENT = 11.0, 26.0  # half the width of an agent; more than 50 agents may be smaller
SMALLEST_CELL = 10.0  # smaller cells are outlined in blocks of ten by ten, or of a hundred by a hundred


class Renderer(SceneRenderer):
    """Pictures of one world: the board at the left, a legend with the distance left at the right.

    Taggers are squares, with their number where several share a cell; the runner is a disc. A ring marks the
    tag. The x axis points right and the y axis up. On large boards agents are drawn larger than a cell. Trails
    and the curve in the panel are kept between frames and cleared when an episode starts.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the pictures, which depend on `num_taggers`, `grid_length` and `episode_length`."""
        board = Board(params)
        status = make_status(ARENA, steps_of(board.limit, ",d"))
        over = field("t") >= board.limit
        write_status(status, "caught", board.tagged)
        write_status(status, "got away", over & ~board.tagged)
        write_status(status, ["runner ", Written(board.distance, ",d"), " away"], ~over & ~board.tagged)
        arena = board.draw()
        return Pictures((arena, board.draw_panel()), (status, arena), LEGEND)

    def controls(self, params: Mapping[str, Any], held: Held) -> Mapping[str, Controls]:
        """Return for both roles the controls that move by a cell."""
        moves = Controls([toward(held, ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)))], Board(params).place(held.agent))
        return {"tagger": moves, "runner": moves}


class Board:
    """Sizes and numbers of gridworld Tag with these parameters."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.taggers, self.limit, self.length = (int(params[key]) for key in ("num_taggers", "episode_length", "grid_length"))
        self.cell = (ARENA - 2 * RIM) / (self.length + 1)
        smallest_size = max(5.0, min(SMALLEST_AGENT, 78.0 / math.sqrt(self.taggers + 1)))
        self.size = min(max(smallest_size, 0.36 * self.cell), LARGEST_AGENT)
        # An agent moves along one axis in a step, so this is the number of steps to the nearest tagger.
        self.distance = smallest(self.taggers, lambda i: self.steps_between(i, self.taggers))
        self.tagged = self.distance.is_(0) & (field("t") > 0)

    def steps_between(self, one: Operand, other: Operand) -> Number:
        """Return the number of cells between two agents, along both axes."""
        return abs(field("loc_x", one) - field("loc_x", other)) + abs(field("loc_y", one) - field("loc_y", other))

    def place(self, agent: Operand) -> At:
        """Return the middle of the cell of an agent, in pixels."""
        return RIM + (field("loc_x", agent) + 0.5) * self.cell, ARENA - RIM - (field("loc_y", agent) + 0.5) * self.cell

    def draw(self) -> Scene:
        """Draw the agents on the board."""
        scene, size = self._draw_empty(), self.size
        palette, taggers = scene.palette, self.taggers
        with scene.each(taggers + 1) as i:
            steps = 12 if self.cell > 20 else 28  # on a large board a step is short
            scene.trail(self.place(i), 1.8 * size, steps, choose(i < taggers, palette.vermilion, palette.sky))
        with scene.each(taggers) as i:
            together = total(taggers, lambda k: self.steps_between(i, k).is_(0))
            draw_tagger(scene, self.place(i), size)
            if size >= 9:
                scene.text(self.place(i), [Written(together)], round(1.1 * size), anchor="mm", when=together > 1)
        # On a tagger's cell the runner is drawn smaller, so that both are visible.
        draw_runner(scene, self.place(taggers), choose(self.tagged, 0.6 * size, size))
        scene.ring(self.place(taggers), 1.6 * size + 8, palette.mark, 4.0, self.tagged)
        return scene

    def _draw_empty(self) -> Scene:
        scene, near, far = Scene(ARENA, ARENA), RIM, ARENA - RIM
        scene.rectangle(near - 2, near - 2, far + 2, far + 2, scene.palette.border, corner=3)
        scene.rectangle(near, near, far, far, scene.palette.surface)
        stride = next(n for n in (1, 10, 100) if n * self.cell >= SMALLEST_CELL)
        for k in range(stride, self.length + 1, stride):
            across, up = near + k * self.cell, far - k * self.cell
            scene.line((across, near, across, far - 1), scene.palette.grid)
            scene.line((near, up, far - 1, up), scene.palette.grid)
        return scene

    def draw_panel(self) -> Scene:
        """Draw title, step, legend with counts, and the curve of the distance."""
        scene, box = Scene(PANEL, HEIGHT, still_first=True), (LEFT, CURVE_TOP, RIGHT, CURVE_BOTTOM)
        palette = scene.palette
        draw_time(scene, "Grid Tag", self.limit, LEFT, RIGHT)
        for row, (word, glyph) in enumerate(zip(("taggers", "runner", "caught"), LEGEND, strict=True)):
            glyph.draw(scene, (LEFT + 14, 200 + 44 * row))
            scene.text((LEFT + 44, 200 + 44 * row), word, 18, anchor="lm")
        scene.text((RIGHT, 200), f"{self.taggers:,}", 24, anchor="rm")
        scene.text((RIGHT, 244), "1", 24, anchor="rm")
        scene.text((LEFT, 340), f"{self.length + 1} x {self.length + 1} cells", 16, palette.muted)
        scene.text((LEFT, CURVE_TOP - 14), "steps to nearest tagger", 14, palette.muted)
        scene.text((RIGHT, CURVE_TOP - 14), [Written(self.distance, ",d")], 20, anchor="rs")
        draw_axis(scene, self.limit, box)
        scene.curve(box, field("t") / self.limit, self.distance, palette.vermilion, inset=4)
        scene.text((LEFT, 648), "runner caught", 20, palette.mark, when=self.tagged)
        over = (field("t") >= self.limit) & ~self.tagged
        scene.text((LEFT, 648), "time is up, it got away", 20, palette.mark, when=over)
        return scene


def draw_tagger(scene: Scene, centre: At, size: Operand) -> None:
    """Draw a square that reaches `size` pixels to each side."""
    x, y = centre
    for reach, colour in ((size + 1.0, scene.palette.page), (size, scene.palette.vermilion)):
        scene.rectangle(x - reach, y - reach, x + reach, y + reach, colour, corner=0.3 * reach)


def draw_runner(scene: Scene, centre: At, size: Operand) -> None:
    """Draw a disc of radius `size`."""
    scene.disc(centre, size + 1.5, scene.palette.page)
    scene.disc(centre, size, scene.palette.sky)


LEGEND = (
    Glyph("tagger", lambda scene, at: draw_tagger(scene, at, 10.0)),
    Glyph("runner", lambda scene, at: draw_runner(scene, at, 10.0)),
    Glyph("caught", lambda scene, at: scene.ring(at, 11.0, scene.palette.mark, 2.5)),
)
"""Names of the shapes on the board."""
