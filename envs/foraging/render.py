"""Draws one world of level-based foraging."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.render.controls import Controls, Held, toward
from gpu_vecenv.render.expressions import Number, Operand, choose, field, floor, most, total
from gpu_vecenv.render.frame import FOOTER, HEADER, MARGIN, Panel, Reading
from gpu_vecenv.render.scene import At, Pictures, Scene, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

BOARD = 576.0  # longer side of the board
WIDTH = int(BOARD + 2 * MARGIN)
HEIGHT = int(HEADER + BOARD + 2 * MARGIN + FOOTER)
WITH_LEVELS = 18.0  # smallest cell whose levels can be read
WITH_LINES = 6.0  # smallest cell with lines around it
LOAD = 5  # an action


class Renderer(SceneRenderer):
    """Pictures of one world as lbforaging draws them: a board of cells, apples and players, each with its level in a disc.

    Row 0 is at the top. Players in one cell stand side by side.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the picture, which depends on `rows`, `cols`, `players` and `max_episode_steps`."""
        rows, cols, players = (int(params[name]) for name in ("rows", "cols", "players"))
        panel, board = Panel("Foraging", int(params["max_episode_steps"]), WIDTH, HEIGHT), Board(rows, cols)
        scene = panel.empty()
        board.draw_lines(scene)
        with scene.each(rows * cols) as i:
            row, col = floor(i / cols), i % cols
            level = field("food", row, col)
            draw_apple(scene, board.middle(row, col), board.cell, level > 0)
            draw_level(scene, board.middle(row, col), level, board.cell, board.cell, level > 0)
        with scene.each(players) as i:
            board.draw_player(scene, i, players)
        left = total(rows, lambda row: total(cols, lambda col: field("food", row, col)))
        panel.write(scene, (Reading("food left", [Written(left), " of ", Written(field("food_spawned"))], left.is_(0)),))
        return Pictures((scene,))

    def controls(self, params: Mapping[str, Any], held: Held) -> Mapping[str, Controls]:
        """Return the controls that move by a cell, and load while a player presses."""
        board = Board(int(params["rows"]), int(params["cols"]))
        at = board.middle(field("player_pos", held.agent, 0), field("player_pos", held.agent, 1))
        moves = toward(held, ((0, 0), (0, 1), (0, -1), (-1, 0), (1, 0), (0, 0)))
        return {"agent": Controls([choose(held.press, held.choice.is_(LOAD), moves)], at)}


class Board:
    """Places of the cells of a board."""

    def __init__(self, rows: int, cols: int) -> None:
        self._rows, self._cols, self.cell = rows, cols, BOARD / max(rows, cols)
        self._left = (WIDTH - self.cell * cols) / 2
        self._top = HEADER + MARGIN + (BOARD - self.cell * rows) / 2

    def middle(self, row: Number, col: Number) -> At:
        """Return the middle of a cell, in pixels."""
        return self._left + self.cell * (col + 0.5), self._top + self.cell * (row + 0.5)

    def draw_lines(self, scene: Scene) -> None:
        """Draw lines around the cells, or around the board if they are dense."""
        right, bottom = self._left + self.cell * self._cols, self._top + self.cell * self._rows
        dense = self.cell < WITH_LINES
        for col in range(0, self._cols + 1, self._cols if dense else 1):
            x = self._left + self.cell * col
            scene.line((x, self._top, x, bottom), scene.palette.border)
        for row in range(0, self._rows + 1, self._rows if dense else 1):
            y = self._top + self.cell * row
            scene.line((self._left, y, right, y), scene.palette.border)

    def draw_player(self, scene: Scene, player: Number, players: int) -> None:
        """Draw a player with its level, beside those that share its cell."""

        def is_here(other: Number) -> Number:
            row, col = (field("player_pos", other, axis).is_(field("player_pos", player, axis)) for axis in (0, 1))
            return row & col

        share = self.cell / total(players, is_here)
        before = total(players, lambda other: is_here(other) & (other < player))
        x, y = self.middle(field("player_pos", player, 0), field("player_pos", player, 1))
        x = x + share * (before + 0.5) - self.cell / 2
        draw_player(scene, (x, y), share)
        draw_level(scene, (x, y), field("player_level", player), share, self.cell)


def draw_apple(scene: Scene, middle: At, size: float, when: Number) -> None:
    """Draw two round halves with a stalk and a leaf."""
    (x, y), palette = middle, scene.palette
    for side in (-1, 1):
        scene.disc((x + side * 0.11 * size, y + 0.04 * size), 0.24 * size, palette.vermilion, when)
    scene.disc((x, y + 0.1 * size), 0.29 * size, palette.vermilion, when)
    scene.line((x, y - 0.12 * size, x + 0.04 * size, y - 0.36 * size), palette.muted, max(1.0, 0.05 * size), when)
    leaf = ((0.05, -0.24), (0.12, -0.36), (0.28, -0.38), (0.2, -0.26))
    scene.polygon([(x + a * size, y + b * size) for a, b in leaf], palette.green, when)


def draw_player(scene: Scene, middle: At, size: Number) -> None:
    """Draw a head above shoulders."""
    (x, y), ink = middle, scene.palette.ink
    scene.disc((x, y - 0.2 * size), 0.2 * size, ink)
    scene.rectangle(x - 0.34 * size, y + 0.03 * size, x + 0.34 * size, y + 0.42 * size, ink, corner=0.18 * size)


def draw_level(scene: Scene, middle: At, level: Number, size: Operand, most_size: float, when: Operand = True) -> None:
    """Write a level in a disc at the right and below a middle, if a cell or a part of it of this size has room."""
    if most_size < WITH_LEVELS:
        return
    (x, y), radius, palette = middle, 0.2 * size, scene.palette
    at, shown = (x + 0.25 * size, y + 0.25 * size), (size >= WITH_LEVELS) & (when > 0)
    scene.disc(at, radius + most(1.0, 0.02 * size), palette.border, shown)
    scene.disc(at, radius, palette.surface, shown)
    scene.text(at, [Written(level)], most(6.0, choose(level < 100, 1.5, 0.9) * radius), palette.ink, "mm", shown)
