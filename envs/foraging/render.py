"""Draws one world of level-based foraging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.frame import FOOTER, HEADER, MARGIN, Panel, Reading
from gpu_vecenv.render.style import DEFAULT_STYLE, Style

BOARD = 576.0  # longer side of the board
WIDTH = int(BOARD + 2 * MARGIN)
HEIGHT = int(HEADER + BOARD + 2 * MARGIN + FOOTER)
WITH_LEVELS = 18.0  # smallest cell whose levels can be read
WITH_LINES = 6.0  # smallest cell with lines around it


class Renderer:
    """Pictures of one world as lbforaging draws them: a board of cells, apples and players, each with its level in a disc.

    Row 0 is at the top. Players in one cell stand side by side.

    Args:
        params: The environment's resolved parameters. The renderer uses `rows`, `cols` and `max_episode_steps`.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._rows, self._cols = int(params["rows"]), int(params["cols"])
        self._panel = Panel("Foraging", int(params["max_episode_steps"]), WIDTH, HEIGHT, style)
        self._cell = BOARD / max(self._rows, self._cols)
        self._left = (WIDTH - self._cell * self._cols) / 2
        self._top = HEADER + MARGIN + (BOARD - self._cell * self._rows) / 2
        self._empty = self._draw_empty()

    def reset(self) -> None:
        """Do nothing: no data are kept between frames."""

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `player_pos` (players, 2), `player_level` (players,), `food`
                (rows, cols), and the scalars `food_spawned` and `t`.

        Returns:
            The picture, uint8 of shape (768, 624, 3) at scale 1.
        """
        canvas, food = self._empty.copy(), np.asarray(state["food"])
        for row, col in np.argwhere(food).tolist():
            self._draw_apple(canvas, self._middle(row, col))
            self._draw_level(canvas, self._middle(row, col), int(food[row, col]), self._cell)
        self._draw_players(canvas, np.asarray(state["player_pos"]).tolist(), np.asarray(state["player_level"]).tolist())
        left, spawned = int(food.sum()), int(state["food_spawned"])
        self._panel.write(canvas, int(state["t"]), (Reading("food left", f"{left} of {spawned}", left == 0),))
        return canvas.to_array()

    def _draw_empty(self) -> Canvas:
        canvas = self._panel.empty()
        right, bottom = self._left + self._cell * self._cols, self._top + self._cell * self._rows
        dense = self._cell < WITH_LINES
        for col in range(0, self._cols + 1, self._cols if dense else 1):
            x = self._left + self._cell * col
            canvas.line((x, self._top, x, bottom), canvas.palette.border)
        for row in range(0, self._rows + 1, self._rows if dense else 1):
            y = self._top + self._cell * row
            canvas.line((self._left, y, right, y), canvas.palette.border)
        return canvas

    def _middle(self, row: int, col: int) -> Point:
        return self._left + self._cell * (col + 0.5), self._top + self._cell * (row + 0.5)

    def _draw_apple(self, canvas: Canvas, middle: Point) -> None:
        """Draw two round halves with a stalk and a leaf."""
        (x, y), size, palette = middle, self._cell, canvas.palette
        for side in (-1, 1):
            canvas.disc((x + side * 0.11 * size, y + 0.04 * size), 0.24 * size, palette.vermilion)
        canvas.disc((x, y + 0.1 * size), 0.29 * size, palette.vermilion)
        canvas.line((x, y - 0.12 * size, x + 0.04 * size, y - 0.36 * size), palette.muted, max(1.0, 0.05 * size))
        leaf = ((0.05, -0.24), (0.12, -0.36), (0.28, -0.38), (0.2, -0.26))
        canvas.polygon([(x + a * size, y + b * size) for a, b in leaf], palette.green)

    def _draw_players(self, canvas: Canvas, places: list[list[int]], levels: list[int]) -> None:
        together = Counter(map(tuple, places))
        drawn: Counter[tuple[int, ...]] = Counter()
        for place, level in zip(map(tuple, places), levels, strict=True):
            x, y = self._middle(*place)
            share = self._cell / together[place]
            x += share * (drawn[place] + 0.5) - self._cell / 2
            drawn[place] += 1
            self._draw_player(canvas, (x, y), share)
            self._draw_level(canvas, (x, y), level, share)

    def _draw_player(self, canvas: Canvas, middle: Point, size: float) -> None:
        """Draw a head above shoulders."""
        (x, y), ink = middle, canvas.palette.ink
        canvas.disc((x, y - 0.2 * size), 0.2 * size, ink)
        canvas.rectangle(x - 0.34 * size, y + 0.03 * size, x + 0.34 * size, y + 0.42 * size, ink, corner=0.18 * size)

    def _draw_level(self, canvas: Canvas, middle: Point, level: int, size: float) -> None:
        """Write a level in a disc at the right and below a middle, if a cell or a part of it of this size has room."""
        if size < WITH_LEVELS:
            return
        (x, y), radius, palette = middle, 0.2 * size, canvas.palette
        at = x + 0.25 * size, y + 0.25 * size
        canvas.disc(at, radius + max(1.0, 0.02 * size), palette.border)
        canvas.disc(at, radius, palette.surface)
        canvas.text(at, str(level), max(6.0, (1.5 if level < 100 else 0.9) * radius), palette.ink, "mm")
