"""Draws one world of Recall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.frame import MARGIN, Panel, Reading
from gpu_vecenv.render.style import DEFAULT_STYLE, Colour, Style, mix

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT = 168.0, WIDTH - MARGIN  # of the tiles
ROWS = {"cue": 156.0, "action": 276.0}  # heights of the middles of both rows of tiles
WIDEST, TALL = 110.0, 80.0  # of a tile
GAP = 0.16  # distance of tiles, as a share of the room for one
CORNER = 8.0
WITH_NUMBER = 24.0  # narrowest tile that shows its number
FAINT = 0.3  # opacity of what is not observed or has no effect


class Renderer:
    """Pictures of one world: a row of tiles for the cue and one for the action of the last step, a tile for each cue.

    The cue is bright while it is observed and faint later. An action is faint if it had no effect. A frame of the colour of
    marks is around the row of actions while the question is observed, and around the answer if it was right.

    Args:
        params: The environment's resolved parameters. The renderer uses `num_cues` and `delay`.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._cues, self._delay = int(params["num_cues"]), int(params["delay"])
        self._panel = Panel("Recall", self._delay + 1, WIDTH, HEIGHT, style)
        room = min(WIDEST / (1 - GAP), (RIGHT - LEFT) / self._cues)
        self._width, self._room = (1 - GAP) * room, room
        self._empty = self._draw_empty()

    def reset(self) -> None:
        """Do nothing: no data are kept between frames."""

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: the scalars `cue`, `choice` (-1 before the first step) and `t`.

        Returns:
            The picture, uint8 of shape (400, 720, 3) at scale 1.
        """
        cue, choice, t = (int(state[name]) for name in ("cue", "choice", "t"))
        answered = t > self._delay
        right = answered and choice == cue
        canvas = self._empty.copy()
        if t == self._delay:
            canvas.text((MARGIN, ROWS["action"] + 36), "asked now", 20, canvas.palette.mark)
            self._draw_frame(canvas, 0, self._cues - 1)
        if right:
            self._draw_frame(canvas, choice, choice)
        self._draw_tile(canvas, "cue", cue, 1.0 if t == 0 else FAINT)
        if choice >= 0:
            self._draw_tile(canvas, "action", choice, 1.0 if answered else FAINT)
        result = "-" if not answered else "right" if right else "wrong"
        self._panel.write(canvas, t, (Reading("cue", str(cue)), Reading("answer", result, right)))
        return canvas.to_array()

    def _draw_empty(self) -> Canvas:
        canvas = self._panel.empty()
        for row, middle in ROWS.items():
            canvas.text((MARGIN, middle), row, 24, canvas.palette.muted, "lm")
            for index in range(self._cues):
                canvas.rectangle(*self._edges(row, index), canvas.palette.grid, corner=CORNER)
                self._write_number(canvas, row, index, canvas.palette.faded)
        return canvas

    def _edges(self, row: str, index: int) -> tuple[float, float, float, float]:
        """Return the left, top, right and bottom edge of a tile, in pixels."""
        left, middle = LEFT + self._room * index, ROWS[row]
        return left, middle - TALL / 2, left + self._width, middle + TALL / 2

    def _draw_frame(self, canvas: Canvas, first: int, last: int) -> None:
        """Draw lines around the actions from `first` to `last`."""
        left, top, *_ = self._edges("action", first)
        *_, right, bottom = self._edges("action", last)
        left, top, right, bottom = left - 8, top - 8, right + 8, bottom + 8
        canvas.line((left, top, right, top, right, bottom, left, bottom, left, top), canvas.palette.mark, 4.0)

    def _draw_tile(self, canvas: Canvas, row: str, index: int, opacity: float) -> None:
        accents = (canvas.palette.sky, canvas.palette.vermilion, canvas.palette.green)
        colour = mix(accents[index % len(accents)], canvas.palette.surface, opacity)
        canvas.rectangle(*self._edges(row, index), colour, corner=CORNER)
        self._write_number(canvas, row, index, canvas.palette.ink)

    def _write_number(self, canvas: Canvas, row: str, index: int, colour: Colour) -> None:
        left, top, right, bottom = self._edges(row, index)
        if right - left >= WITH_NUMBER:
            canvas.text(((left + right) / 2, (top + bottom) / 2), str(index), min(34.0, 0.4 * (right - left)), colour, "mm")
