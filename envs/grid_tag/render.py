"""Draws one world of gridworld Tag."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.frame import draw_status
from gpu_vecenv.render.legend import Entry
from gpu_vecenv.render.style import DEFAULT_STYLE, Style
from gpu_vecenv.render.trails import Trails

HEIGHT = 688
ARENA = HEIGHT  # the arena's picture is a square
RIM = 24
PANEL = 272
LEFT, RIGHT = 8, PANEL - 24  # horizontal edges of the panel's content
CURVE_TOP, CURVE_BOTTOM = 424, 584

SMALLEST_AGENT, LARGEST_AGENT = 11.0, 26.0  # half the width of an agent; more than 50 agents may be smaller
SMALLEST_CELL = 10.0  # smaller cells are outlined in blocks of ten by ten, or of a hundred by a hundred


class Renderer:
    """Pictures of one world: the board at the left, a legend with the distance left at the right.

    Taggers are squares, with their number where several share a cell; the runner is a disc. A ring marks the
    tag. The x axis points right and the y axis up. On large boards agents are drawn larger than a cell. Trails
    and the curve in the panel are kept between frames and cleared when an episode starts.

    Args:
        params: The environment's resolved parameters. The renderer uses `num_taggers`, `grid_length` and
            `episode_length`.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._style, palette = style, style.palette
        self._taggers = int(params["num_taggers"])
        self._limit = int(params["episode_length"])
        self._length = int(params["grid_length"])
        self._cell = (ARENA - 2 * RIM) / (self._length + 1)
        smallest = max(5.0, min(SMALLEST_AGENT, 78.0 / math.sqrt(self._taggers + 1)))
        self._size = min(max(smallest, 0.36 * self._cell), LARGEST_AGENT)
        self._trails = Trails(12 if self._cell > 20 else 28)  # on a large board a step is short
        self._colours = [palette.vermilion] * self._taggers + [palette.sky]
        self._empty_arena = self._draw_empty_arena()
        self._empty_panel = self._draw_empty_panel()
        self.reset()

    def reset(self) -> None:
        """Forget data of earlier frames: trails and the curve."""
        self._trails.clear()
        self._curve: dict[int, int] = {}  # step to distance
        self._time = -1
        self._episode: int | None = None

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `loc_x` and `loc_y` of shape (A,), taggers first,
                the runner last, and the scalar `t`. An optional `episode` distinguishes episodes.

        Returns:
            The picture, uint8 of shape (688, 960, 3) at scale 1.
        """
        arena, distance, tagged = self._next_arena(state)
        return np.concatenate([arena.to_array(), self._draw_panel(distance, tagged).to_array()], axis=1)

    def scene(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state without the panel, with one line of text above: a part of a picture that has one `legend`.

        Args:
            state: As in `frame`.

        Returns:
            The picture, uint8 of shape (736, 688, 3) at scale 1.
        """
        arena, distance, tagged = self._next_arena(state)
        words = "caught" if tagged else "got away" if self._time >= self._limit else f"runner {distance:,} away"
        status = draw_status(ARENA, f"step {self._time:,} / {self._limit:,}", words, self._style)
        return np.concatenate([status, arena.to_array()])

    @property
    def legend(self) -> tuple[Entry, ...]:
        """Names of the shapes in `scene`."""
        return (
            Entry("tagger", lambda canvas, at: draw_tagger(canvas, at, 10.0)),
            Entry("runner", lambda canvas, at: draw_runner(canvas, at, 10.0)),
            Entry("caught", lambda canvas, at: canvas.ring(at, 11.0, canvas.palette.mark, 2.5)),
        )

    def _next_arena(self, state: Mapping[str, np.ndarray]) -> tuple[Canvas, int, bool]:
        """Draw the board; return it, the steps to the nearest tagger, and True if the runner is tagged."""
        x, y = np.asarray(state["loc_x"], np.int64), np.asarray(state["loc_y"], np.int64)
        time, episode = int(state["t"]), int(state["episode"]) if "episode" in state else None
        if time < self._time or episode != self._episode:
            self.reset()
        places = np.stack([RIM + (x + 0.5) * self._cell, ARENA - RIM - (y + 0.5) * self._cell], axis=1)
        self._trails.push(places, again=time == self._time)
        # An agent moves along one axis in a step, so this is the number of steps to the nearest tagger.
        distance = int((np.abs(x[:-1] - x[-1]) + np.abs(y[:-1] - y[-1])).min())
        self._curve[time] = distance
        self._time, self._episode = time, episode
        tagged = distance == 0 and time > 0
        return self._draw_arena([(a, b) for a, b in places.tolist()], tagged), distance, tagged

    # The board

    def _draw_empty_arena(self) -> Canvas:
        canvas = Canvas(ARENA, ARENA, style=self._style)
        near, far = RIM, ARENA - RIM
        canvas.rectangle(near - 2, near - 2, far + 2, far + 2, canvas.palette.border, corner=3)
        canvas.rectangle(near, near, far, far, canvas.palette.surface)
        stride = next(n for n in (1, 10, 100) if n * self._cell >= SMALLEST_CELL)
        for k in range(stride, self._length + 1, stride):
            across, up = near + k * self._cell, far - k * self._cell
            canvas.line((across, near, across, far - 1), canvas.palette.grid)
            canvas.line((near, up, far - 1, up), canvas.palette.grid)
        return canvas

    def _draw_arena(self, points: list[Point], tagged: bool) -> Canvas:
        canvas = self._empty_arena.copy()
        self._trails.draw(canvas, self._colours, 1.8 * self._size)
        runner = points.pop()
        for point, count in Counter(points).items():
            draw_tagger(canvas, point, self._size)
            if count > 1 and self._size >= 9:
                canvas.text(point, str(count), round(1.1 * self._size), anchor="mm")
        # On a tagger's cell the runner is drawn smaller, so that both are visible.
        draw_runner(canvas, runner, 0.6 * self._size if tagged else self._size)
        if tagged:
            canvas.ring(runner, 1.6 * self._size + 8, canvas.palette.mark, 4.0)
        return canvas

    # The panel

    def _draw_empty_panel(self) -> Canvas:
        canvas = Canvas(PANEL, HEIGHT, style=self._style)
        canvas.text((LEFT, 52), "Grid Tag", 34)
        canvas.text((LEFT, 124), "step", 16, canvas.palette.muted)
        for row, (word, entry) in enumerate(zip(("taggers", "runner", "caught"), self.legend, strict=True)):
            entry.draw(canvas, (LEFT + 14, 200 + 44 * row))
            canvas.text((LEFT + 44, 200 + 44 * row), word, 18, anchor="lm")
        canvas.text((RIGHT, 200), f"{self._taggers:,}", 24, anchor="rm")
        canvas.text((RIGHT, 244), "1", 24, anchor="rm")
        canvas.text((LEFT, 340), f"{self._length + 1} x {self._length + 1} cells", 16, canvas.palette.muted)

        canvas.text((LEFT, CURVE_TOP - 14), "steps to nearest tagger", 14, canvas.palette.muted)
        canvas.rectangle(LEFT, CURVE_TOP, RIGHT, CURVE_BOTTOM, canvas.palette.surface)
        canvas.text((LEFT, CURVE_BOTTOM + 18), "0", 14, canvas.palette.muted)
        canvas.text((RIGHT, CURVE_BOTTOM + 18), f"step {self._limit:,}", 14, canvas.palette.muted, "rs")
        return canvas

    def _draw_panel(self, distance: int, tagged: bool) -> Canvas:
        canvas = self._empty_panel.copy()
        canvas.text((RIGHT, 124), f"{self._time} / {self._limit}", 26, anchor="rs")
        canvas.rectangle(LEFT, 138, RIGHT, 144, canvas.palette.grid, corner=3)
        done = min(1.0, self._time / self._limit)
        canvas.rectangle(LEFT, 138, LEFT + done * (RIGHT - LEFT), 144, canvas.palette.ink, corner=3)
        canvas.text((RIGHT, CURVE_TOP - 14), f"{distance:,}", 20, anchor="rs")
        self._draw_curve(canvas)
        if tagged:
            canvas.text((LEFT, 648), "runner caught", 20, canvas.palette.mark)
        elif self._time >= self._limit:
            canvas.text((LEFT, 648), "time is up, it got away", 20, canvas.palette.mark)
        return canvas

    def _draw_curve(self, canvas: Canvas) -> None:
        stride = 1 + len(self._curve) // (RIGHT - LEFT)
        points = list(self._curve.items())
        shown = [*points[:-1:stride], points[-1]]
        highest = max(1, *self._curve.values())
        across, down = (RIGHT - LEFT) / self._limit, (CURVE_BOTTOM - CURVE_TOP - 4) / highest
        line = [(LEFT + min(t, self._limit) * across, CURVE_BOTTOM - n * down) for t, n in shown]
        if len(line) > 1:
            canvas.line(line, canvas.palette.vermilion, 2.0)
        canvas.disc(line[-1], 4.0, canvas.palette.vermilion)


def draw_tagger(canvas: Canvas, centre: Point, size: float) -> None:
    """Draw a square that reaches `size` pixels to each side."""
    x, y = centre
    for reach, colour in ((size + 1.0, canvas.palette.page), (size, canvas.palette.vermilion)):
        canvas.rectangle(x - reach, y - reach, x + reach, y + reach, colour, corner=0.3 * reach)


def draw_runner(canvas: Canvas, centre: Point, size: float) -> None:
    """Draw a disc of radius `size`."""
    canvas.disc(centre, size + 1.5, canvas.palette.page)
    canvas.disc(centre, size, canvas.palette.sky)
