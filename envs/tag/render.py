"""Draws one world of continuous Tag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.frame import draw_status
from gpu_vecenv.render.legend import Entry
from gpu_vecenv.render.style import DEFAULT_STYLE, Style, mix
from gpu_vecenv.render.trails import Trails

HEIGHT = 688
ARENA = HEIGHT  # the arena's picture is a square
RIM = 24  # room around the walls, so that an agent at a wall is drawn completely
PANEL = 272
LEFT, RIGHT = 8, PANEL - 24  # horizontal edges of the panel's content
CURVE_TOP, CURVE_BOTTOM = 424, 584

FLASH_STEPS = 8
MOST_TRAILS = 50  # with more agents, only taggers have trails
MAX_DISC = 80  # a larger disc is only outlined, because a filled one would hide the arena


class Renderer:
    """Pictures of one world: the arena at the left, a legend with live counts at the right.

    Taggers are arrowheads on a disc as large as the tagging distance, runners are drops with their
    tip in the direction they face, caught runners are crosses, and a growing ring marks a runner that was
    caught a moment ago. The y axis points up. Trails and the curve in the panel are kept between frames and
    cleared when an episode starts.

    Args:
        params: The environment's resolved parameters. The renderer uses `num_taggers`, `num_runners`, `grid_length`,
            `episode_length`, `tagging_distance` and `runner_exits_game_after_tagged`.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._style, palette = style, style.palette
        self._taggers = int(params["num_taggers"])
        self._runners = int(params["num_runners"])
        self._limit = int(params["episode_length"])
        self._exits = bool(params["runner_exits_game_after_tagged"])
        length = float(params["grid_length"])
        self._scale = (ARENA - 2 * RIM) / length  # pixels a unit
        self._reach = float(params["tagging_distance"]) * length * self._scale

        agents = self._taggers + self._runners
        self._size = min(11.0, max(3.0, 78.0 / math.sqrt(agents)))
        self._tagger_size = max(6.0, 1.3 * self._size)
        self._trails = Trails(12 if agents <= 300 else 8)
        # Trails of a crowd would hide the few taggers.
        self._trailed = agents if agents <= MOST_TRAILS else self._taggers
        self._colours = [palette.vermilion] * self._taggers + [palette.sky] * self._runners
        self._empty_arena = self._draw_empty_arena()
        self._empty_panel = self._draw_empty_panel()
        self.reset()

    def reset(self) -> None:
        """Forget data of earlier frames: trails, flashes and the curve."""
        self._trails.clear()
        self._curve: dict[int, int] = {}  # step to height
        self._tagged_at: dict[int, int] = {}  # agents tagged in the last FLASH_STEPS steps
        self._alive: np.ndarray | None = None
        self._time = -1
        self._episode: int | None = None

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `loc_x`, `loc_y`, `direction`, `alive` of shape
                (A,), taggers first, and the scalar `t`. An optional `episode` distinguishes episodes.

        Returns:
            The picture, uint8 of shape (688, 960, 3) at scale 1.
        """
        arena, alive = self._next_arena(state)
        return np.concatenate([arena.to_array(), self._draw_panel(alive).to_array()], axis=1)

    def scene(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state without the panel, with one line of text above: a part of a picture that has one `legend`.

        Args:
            state: As in `frame`.

        Returns:
            The picture, uint8 of shape (736, 688, 3) at scale 1.
        """
        arena, alive = self._next_arena(state)
        free = int(alive[self._taggers :].sum())
        caught = f"caught {self._runners - free:,}" if self._exits else f"tagged now {self._tagged_in_step():,}"
        status = draw_status(ARENA, f"step {self._time:,} / {self._limit:,}", f"{caught} of {self._runners:,}", self._style)
        return np.concatenate([status, arena.to_array()])

    @property
    def legend(self) -> tuple[Entry, ...]:
        """Names of the shapes in `scene`."""
        up = (0.7071, -0.7071)
        entries = [
            Entry("tagger", lambda canvas, at: draw_tagger(canvas, at, up, 11.0)),
            Entry("runner", lambda canvas, at: draw_runner(canvas, at, up, 11.0)),
        ]
        if self._exits:
            entries.append(Entry("caught", lambda canvas, at: canvas.cross(at, 8.0, canvas.palette.faded, 2.5)))
        word = "just caught" if self._exits else "tagged now"
        return *entries, Entry(word, lambda canvas, at: canvas.ring(at, 11.0, canvas.palette.mark, 2.5))

    def _next_arena(self, state: Mapping[str, np.ndarray]) -> tuple[Canvas, np.ndarray]:
        alive = np.asarray(state["alive"]).astype(bool)
        x, y = np.asarray(state["loc_x"]), np.asarray(state["loc_y"])
        places = np.stack([RIM + x * self._scale, ARENA - RIM - y * self._scale], axis=1)
        self._remember(int(state["t"]), state.get("episode"), places, alive)
        return self._draw_arena(places, np.asarray(state["direction"], np.float64), alive), alive

    # Data kept between frames

    def _remember(self, time: int, episode: Any, places: np.ndarray, alive: np.ndarray) -> None:
        episode = None if episode is None else int(episode)
        if time < self._time or episode != self._episode:
            self.reset()
        self._trails.push(places[: self._trailed], again=time == self._time)
        tagged = self._tagged_now(places, alive)
        recent = {i: t for i, t in self._tagged_at.items() if time - t < FLASH_STEPS}
        self._tagged_at = recent | dict.fromkeys(tagged, time)
        self._curve[time] = int(alive[self._taggers :].sum()) if self._exits else len(tagged)
        self._alive, self._time, self._episode = alive, time, episode

    def _tagged_now(self, places: np.ndarray, alive: np.ndarray) -> list[int]:
        """Return the runners tagged since the last frame; without exits, those within a tagger's reach."""
        if self._alive is None:
            return []
        if self._exits:
            return np.flatnonzero(self._alive & ~alive).tolist()
        gap = places[self._taggers :, None] - places[None, : self._taggers]
        nearest = np.hypot(gap[..., 0], gap[..., 1]).min(axis=1)
        return (np.flatnonzero(nearest < self._reach) + self._taggers).tolist()

    def _tagged_in_step(self) -> int:
        return sum(t == self._time for t in self._tagged_at.values())

    # The arena

    def _draw_empty_arena(self) -> Canvas:
        canvas = Canvas(ARENA, ARENA, style=self._style)
        near, far = RIM, ARENA - RIM
        canvas.rectangle(near - 2, near - 2, far + 2, far + 2, canvas.palette.border, corner=3)
        canvas.rectangle(near, near, far, far, canvas.palette.surface)
        for k in range(1, 10):
            at = near + k * (far - near) / 10
            canvas.line((at, near, at, far - 1), canvas.palette.grid)
            canvas.line((near, at, far - 1, at), canvas.palette.grid)
        return canvas

    def _draw_arena(self, places: np.ndarray, direction: np.ndarray, alive: np.ndarray) -> Canvas:
        canvas = self._empty_arena.copy()
        points = [(x, y) for x, y in places.tolist()]
        facing = [(u, v) for u, v in np.stack([np.cos(direction), -np.sin(direction)], axis=1).tolist()]
        first = self._taggers
        if self._reach > self._size:
            draw = canvas.disc if self._reach < MAX_DISC else canvas.ring
            for point in points[:first]:
                draw(point, self._reach, mix(canvas.palette.vermilion, canvas.palette.surface, 0.25))
        self._trails.draw(canvas, self._colours, self._size)
        for i in np.flatnonzero(~alive).tolist():
            colour = canvas.palette.mark if i in self._tagged_at else canvas.palette.faded
            canvas.cross(points[i], max(3.5, 0.75 * self._size), colour, max(1.0, 0.22 * self._size))
        for i in (np.flatnonzero(alive[first:]) + first).tolist():
            draw_runner(canvas, points[i], facing[i], self._size)
        for i in range(first):
            draw_tagger(canvas, points[i], facing[i], self._tagger_size)
        for i, since in self._tagged_at.items():
            age = (self._time - since) / FLASH_STEPS
            radius = max(5.0, self._size) * (1.6 + 2.2 * age)
            canvas.ring(points[i], radius, mix(canvas.palette.mark, canvas.palette.surface, 1.0 - 0.8 * age), 2.5 - 1.5 * age)
        return canvas

    # The panel

    def _draw_empty_panel(self) -> Canvas:
        canvas = Canvas(PANEL, HEIGHT, style=self._style)
        canvas.text((LEFT, 52), "Tag", 34)
        canvas.text((LEFT, 124), "step", 16, canvas.palette.muted)
        words = ["taggers", "runners free", "caught", "just caught"] if self._exits else ["taggers", "runners", "tagged now"]
        for row, (word, entry) in enumerate(zip(words, self.legend, strict=True)):
            entry.draw(canvas, (LEFT + 14, 200 + 44 * row))
            canvas.text((LEFT + 44, 200 + 44 * row), word, 18, anchor="lm")

        curve = "runners free" if self._exits else "runners tagged"
        canvas.text((LEFT, CURVE_TOP - 14), curve, 14, canvas.palette.muted)
        canvas.rectangle(LEFT, CURVE_TOP, RIGHT, CURVE_BOTTOM, canvas.palette.surface)
        canvas.text((LEFT, CURVE_BOTTOM + 18), "0", 14, canvas.palette.muted)
        canvas.text((RIGHT, CURVE_BOTTOM + 18), f"step {self._limit:,}", 14, canvas.palette.muted, "rs")
        canvas.text((RIGHT, CURVE_TOP - 14), f"of {self._runners:,}", 14, canvas.palette.muted, "rs")
        return canvas

    def _draw_panel(self, alive: np.ndarray) -> Canvas:
        canvas = self._empty_panel.copy()
        free = int(alive[self._taggers :].sum())
        canvas.text((RIGHT, 124), f"{self._time} / {self._limit}", 26, anchor="rs")
        canvas.rectangle(LEFT, 138, RIGHT, 144, canvas.palette.grid, corner=3)
        done = min(1.0, self._time / self._limit)
        canvas.rectangle(LEFT, 138, LEFT + done * (RIGHT - LEFT), 144, canvas.palette.ink, corner=3)
        if self._exits:
            counts = [self._taggers, free, self._runners - free, len(self._tagged_at)]
        else:
            counts = [self._taggers, self._runners, self._tagged_in_step()]
        for row, count in enumerate(counts):
            canvas.text((RIGHT, 200 + 44 * row), f"{count:,}", 24, anchor="rm")
        self._draw_curve(canvas)
        if self._exits and free == 0:
            canvas.text((LEFT, 648), "all runners caught", 20, canvas.palette.mark)
        elif self._time >= self._limit:
            verdict = f"time is up, {free:,} got away" if self._exits else "time is up"
            canvas.text((LEFT, 648), verdict, 20, canvas.palette.mark)
        return canvas

    def _draw_curve(self, canvas: Canvas) -> None:
        stride = 1 + len(self._curve) // (RIGHT - LEFT)
        points = list(self._curve.items())
        shown = [*points[:-1:stride], points[-1]]
        across, down = (RIGHT - LEFT) / self._limit, (CURVE_BOTTOM - CURVE_TOP - 4) / self._runners
        line = [(LEFT + min(t, self._limit) * across, CURVE_BOTTOM - n * down) for t, n in shown]
        area = [(line[0][0], float(CURVE_BOTTOM)), *line, (line[-1][0], float(CURVE_BOTTOM))]
        canvas.polygon(area, mix(canvas.palette.sky, canvas.palette.surface, 0.25))
        if len(line) > 1:
            canvas.line(line, canvas.palette.sky, 2.0)
        canvas.disc(line[-1], 4.0, canvas.palette.sky)


def draw_tagger(canvas: Canvas, centre: Point, facing: Point, size: float) -> None:
    """Draw an arrowhead that points along the unit vector `facing` (y downwards)."""
    x, y = centre
    for scale, colour in ((1.16 * size + 0.4, canvas.palette.ink), (size, canvas.palette.vermilion)):
        u, v = facing[0] * scale, facing[1] * scale
        back_x, back_y = x - 0.85 * u, y - 0.85 * v
        corners = (
            (x + 1.15 * u, y + 1.15 * v),
            (back_x - 0.85 * v, back_y + 0.85 * u),
            (x - 0.4 * u, y - 0.4 * v),
            (back_x + 0.85 * v, back_y - 0.85 * u),
        )
        canvas.polygon(corners, colour)


def draw_runner(canvas: Canvas, centre: Point, facing: Point, size: float) -> None:
    """Draw a drop with its tip along the unit vector `facing` (y downwards)."""
    (x, y), (u, v) = centre, facing
    for radius, colour in ((0.7 * size + 1.0, canvas.palette.page), (0.7 * size, canvas.palette.sky)):
        tip, side, ahead = 2.0 * radius, 0.866 * radius, 0.5 * radius  # the sides touch the circle
        corners = (
            (x + tip * u, y + tip * v),
            (x + ahead * u - side * v, y + ahead * v + side * u),
            (x + ahead * u + side * v, y + ahead * v - side * u),
        )
        canvas.polygon(corners, colour)
        canvas.disc(centre, radius, colour)
