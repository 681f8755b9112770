"""Draws one world of Recall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.render.expressions import Ink, Number, Operand, blend, choose, field, pick
from gpu_vecenv.render.frame import MARGIN, Panel, Reading
from gpu_vecenv.render.scene import Pictures, Scene, Words, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT = 168.0, WIDTH - MARGIN  # of the tiles
ROWS = {"cue": 156.0, "action": 276.0}  # heights of the middles of both rows of tiles
WIDEST, TALL = 110.0, 80.0  # of a tile
GAP = 0.16  # distance of tiles, as a share of the room for one
CORNER = 8.0
WITH_NUMBER = 24.0  # narrowest tile that shows its number
FAINT = 0.3  # opacity of what is not observed or has no effect


class Renderer(SceneRenderer):
    """Pictures of one world: a row of tiles for the cue and one for the action of the last step, a tile for each cue.

    The cue is bright while it is observed and faint later. An action is faint if it had no effect. A frame of the colour of
    marks is around the row of actions while the question is observed, and around the answer if it was right.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the picture, which depends on `num_cues` and `delay`."""
        cues, delay = int(params["num_cues"]), int(params["delay"])
        panel, tiles = Panel("Recall", delay + 1, WIDTH, HEIGHT), Tiles(cues)
        cue, choice, time = field("cue"), field("choice"), field("t")
        asked, answered = time.is_(delay), time > delay
        right = answered & choice.is_(cue)
        scene = panel.empty()
        tiles.draw_empty(scene)
        scene.text((MARGIN, ROWS["action"] + 36), "asked now", 20, scene.palette.mark, when=asked)
        tiles.draw_frame(scene, 0, cues - 1, asked)
        tiles.draw_frame(scene, choice, choice, right)
        tiles.draw(scene, "cue", cue, choose(time.is_(0), 1.0, FAINT))
        tiles.draw(scene, "action", choice, choose(answered, 1.0, FAINT), choice >= 0)
        panel.write(scene, (Reading("cue", [Written(cue)]), Reading("answer", "")))
        for words, when in (("-", ~answered), ("wrong", answered & ~right), ("right", right)):
            panel.write_value(scene, 1, words, scene.palette.mark if words == "right" else scene.palette.ink, when)
        return Pictures((scene,))


class Tiles:
    """Rows of tiles, one for each cue; a tile that is wide enough has its number."""

    def __init__(self, cues: int) -> None:
        self._cues, self._room = cues, min(WIDEST / (1 - GAP), (RIGHT - LEFT) / cues)
        self._width = (1 - GAP) * self._room

    def draw_empty(self, scene: Scene) -> None:
        """Draw both rows without a choice."""
        for row, middle in ROWS.items():
            scene.text((MARGIN, middle), row, 24, scene.palette.muted, "lm")
            for index in range(self._cues):
                scene.rectangle(*self._edges(row, index), scene.palette.grid, corner=CORNER)
                self._write_number(scene, row, index, str(index), scene.palette.faded)

    def draw_frame(self, scene: Scene, first: Operand, last: Operand, when: Number) -> None:
        """Draw lines around the actions from `first` to `last`."""
        left, top, *_ = self._edges("action", first)
        *_, right, bottom = self._edges("action", last)
        left, top, right, bottom = left - 8, top - 8, right + 8, bottom + 8
        scene.line((left, top, right, top, right, bottom, left, bottom, left, top), scene.palette.mark, 4.0, when)

    def draw(self, scene: Scene, row: str, index: Number, opacity: Operand, when: Number | None = None) -> None:
        """Draw the tile with a number in its colour."""
        palette = scene.palette
        colour = blend(pick((palette.sky, palette.vermilion, palette.green), index % 3), palette.surface, opacity)
        scene.rectangle(*self._edges(row, index), colour, corner=CORNER, when=when)
        self._write_number(scene, row, index, [Written(index)], palette.ink, when)

    def _edges(self, row: str, index: Operand) -> tuple[Operand, float, Operand, float]:
        """Return the left, top, right and bottom edge of a tile, in pixels."""
        left, middle = LEFT + self._room * index, ROWS[row]
        return left, middle - TALL / 2, left + self._width, middle + TALL / 2

    def _write_number(
        self, scene: Scene, row: str, index: Operand, words: Words, colour: Ink, when: Number | None = None
    ) -> None:
        left, top, right, bottom = self._edges(row, index)
        if self._width >= WITH_NUMBER:
            scene.text(((left + right) / 2, (top + bottom) / 2), words, min(34.0, 0.4 * self._width), colour, "mm", when)
