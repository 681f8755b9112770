"""Draws scenes with Pillow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.controls import Controls, Held
from gpu_vecenv.render.expressions import Json, Now
from gpu_vecenv.render.legend import Entry
from gpu_vecenv.render.scene import KEPT, NEVER, Glyph, Pictures, Scene, depends_on_state, shape_by_shape
from gpu_vecenv.render.style import DEFAULT_STYLE, Colour, Style
from gpu_vecenv.render.trails import Trails

State = Mapping[str, np.ndarray]


class SceneRenderer:
    """Pictures of one world from a description. A class `Renderer` of `render.py` is a subclass that defines `pictures()`.

    Args:
        params: The environment's resolved parameters.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._pictures, self._style = self.pictures(params), style
        self._time, self._episode = -1, 0

    @cached_property
    def _drawn(self) -> dict[Scene, DrawnScene]:
        """The scenes with what they keep of the episode, made at the first picture: a page needs the data alone."""
        scenes = dict.fromkeys((*self._pictures.frame, *self._pictures.scene))
        return {scene: DrawnScene(scene, self._style) for scene in scenes}

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the pictures of a world with these parameters."""
        raise NotImplementedError

    def controls(self, params: Mapping[str, Any], held: Held) -> Mapping[str, Controls]:
        """Return how a page's player steers agents, by role; by default none, and pages choose."""
        return {}

    def describe(self) -> Json:
        """Return the pictures as data, for a page."""
        return self._pictures.json

    def reset(self) -> None:
        """Forget the states of the episode."""
        self._time, self._episode = -1, 0
        for drawn in self._drawn.values():
            drawn.reset()

    def frame(self, state: State) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis, and the scalar `t`. An optional `episode` distinguishes episodes.

        Returns:
            The picture, uint8 of shape (H, W, 3).
        """
        return self._draw(self._pictures.frame, state, 0 if self._pictures.stacked else 1)

    def scene(self, state: State) -> np.ndarray:
        """Draw a state as a part of a picture that has one `legend`; see `frame`."""
        return self._draw(self._pictures.scene, state, 0) if self._pictures.scene else self.frame(state)

    @property
    def legend(self) -> tuple[Entry, ...]:
        """Names of the shapes in `scene`."""
        return tuple(map(entry_of, self._pictures.legend))

    def _draw(self, scenes: Sequence[Scene], state: State, axis: int) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):  # a shape that is not shown may have no place
            self._follow(state)
            return np.concatenate([self._drawn[scene].to_array(state) for scene in scenes], axis=axis)

    def _follow(self, state: State) -> None:
        time, episode = int(state["t"]), int(state.get("episode", 0))
        if time < self._time or episode != self._episode:
            self.reset()
        for drawn in self._drawn.values():
            drawn.follow(state, time, again=time == self._time)
        self._time, self._episode = time, episode


def entry_of(glyph: Glyph) -> Entry:
    """Return a glyph as an entry of a legend."""

    def draw(canvas: Canvas, at: Point) -> None:
        for block in glyph.shapes(at).blocks:
            draw_block(canvas, block, Now({}))

    return Entry(glyph.word, draw)


class Memory:
    """Memory of a scene: for each entry of ``Scene.memory`` an array with a number for each index."""

    def __init__(self, entries: list[Json]) -> None:
        self._entries = entries
        self._before: list[np.ndarray] = []
        self._extremes = [np.full(entry["count"], -np.inf) for entry in entries]  # of events, and largest or held numbers
        self.values: list[np.ndarray] = []

    def follow(self, state: State, time: int) -> None:
        """Take the next state of the episode."""
        self.values, present = [], []
        for place, entry in enumerate(self._entries):
            now = Now(state, {entry["variable"]: np.arange(entry["count"])}, self.values)
            present.append(np.broadcast_to(now.value(entry["number"]), entry["count"]))
            if entry["kind"] == "age":
                self._extremes[place] = np.where(present[place], time, self._extremes[place])
                self.values.append(np.minimum(time - self._extremes[place], NEVER))
            elif entry["kind"] == "held":
                event = now.value(entry["event"]) if self._before else 1
                self._extremes[place] = np.where(event, present[place], self._extremes[place])
                self.values.append(self._extremes[place])
            elif entry["kind"] == "highest":
                self._extremes[place] = np.maximum(present[place], self._extremes[place])
                self.values.append(self._extremes[place])
            else:
                follows = entry["kind"] == "before" and self._before
                self.values.append(self._before[place] if follows else present[place])
        self._before = present


class Curve:
    """A number over the states of an episode, for each entry of a block; see ``curve()`` and ``columns()`` of ``Scene``."""

    def __init__(self, shape: Json) -> None:
        self._shape = shape
        self._points: dict[tuple[float, ...], list[tuple[float, float]]] = {}  # by place

    def follow(self, now: Now, count: int) -> None:
        """Take the values of the next state of the episode."""
        if "when" not in self._shape or np.all(now.value(self._shape["when"])):
            shares, values = now.values(self._shape["share"], count), now.values(self._shape["value"], count)
            self._points[tuple(shares)] = [*zip(shares, values, strict=True)]

    def draw(self, canvas: Canvas, index: int, colour: Colour, area: Colour | None) -> None:
        """Draw the curve or the columns of an entry."""
        points = [points[index] for points in self._points.values()]
        if self._shape["op"] == "columns":
            self._draw_columns(canvas, points, colour)
        elif points:
            self._draw_curve(canvas, points, colour, area)

    def _draw_columns(self, canvas: Canvas, points: list[tuple[float, float]], colour: Colour) -> None:
        left, top, right, bottom = self._shape["box"]
        for share, value in points:
            at, height = left + share * (right - left), min(1.0, value) * (bottom - top)
            canvas.rectangle(at, bottom - height, at + self._shape["width"] * (right - left), bottom, colour)

    def _draw_curve(self, canvas: Canvas, points: list[tuple[float, float]], colour: Colour, area: Colour | None) -> None:
        shape = self._shape
        left, top, right, bottom = shape["box"]
        shown = [*points[: -1 : 1 + len(points) // int(right - left)], points[-1]]
        highest = shape["highest"] or max(shape["floor"], *(value for _, value in points))
        across, up = right - left, (bottom - top - shape["inset"]) / highest
        line = [(left + min(1.0, share) * across, bottom - value * up) for share, value in shown]
        if area is not None:
            canvas.polygon([(line[0][0], bottom), *line, (line[-1][0], bottom)], area)
        if len(line) > 1:
            canvas.line(line, colour, shape["width"])
        canvas.disc(line[-1], shape["dot"], colour)


class Path:
    """A line through what was seen in an episode, for each entry of a block; see ``path()`` of ``Scene``."""

    def __init__(self, shape: Json) -> None:
        self._shape = shape
        self._seen: list[list[tuple[float, float]]] = []
        self._joined: list[list[float]] = []

    def push(self, now: Now, count: int, again: bool) -> None:
        """Append what is seen in the next state; `again` replaces that of the last call."""
        if again:
            self._seen.pop()
        else:
            self._joined.append(now.values(self._shape["joined"], count))
        self._seen.append([*zip(*(now.values(part, count) for part in self._shape["seen"]), strict=True)])

    def draw(self, canvas: Canvas, now: Now, index: int, colour: Colour) -> None:
        """Draw the line of an entry."""
        (_, one), (_, two) = self._shape["variables"]
        seen = np.array([entries[index] for entries in self._seen])
        along = now.along(index, {one: seen[:, 0], two: seen[:, 1]})
        places = np.stack([np.broadcast_to(along.value(part), len(seen)) for part in self._shape["at"]], axis=1)
        cuts = [k for k, joined in enumerate(self._joined) if k and not joined[index]]
        for start, end in itertools.pairwise((0, *cuts, len(seen))):
            if end - start > 1:
                canvas.line(places[start:end].reshape(-1).tolist(), colour, self._shape["width"])


class DrawnScene:
    """One scene, what it keeps of the episode, and the part of its picture that no state changes.

    Args:
        scene: The description.
        style: Colours and scale.
    """

    def __init__(self, scene: Scene, style: Style) -> None:
        self._scene, self._empty = scene, Canvas(scene.width, scene.height, style=style)
        blocks = shape_by_shape(scene.blocks)
        still = next((k for k, block in enumerate(blocks) if depends_on_state(block)), len(blocks))
        for block in blocks[:still]:
            draw_block(self._empty, block, now_of(block, {}))
        self._moving = blocks[still:]
        self.reset()

    def reset(self) -> None:
        """Forget the states of the episode."""
        self._memory = Memory(self._scene.memory)
        self._followers: dict[int, Trails | Curve | Path] = {}
        for block in self._moving:
            for shape in block["shapes"]:
                if shape["op"] == "trail":
                    self._followers[id(shape)] = Trails(shape["steps"])
                elif shape["op"] in KEPT:
                    self._followers[id(shape)] = Path(shape) if shape["op"] == "path" else Curve(shape)

    def follow(self, state: State, time: int, again: bool) -> None:
        """Take the next state of the episode; `again` for one of the same time as the last."""
        self._memory.follow(state, time)
        for block in self._moving:
            count, now = block.get("count", 1), now_of(block, state, self._memory.values)
            for shape in block["shapes"]:
                follower = self._followers.get(id(shape))
                if isinstance(follower, Trails):
                    follower.push(np.array([now.values(part, count) for part in shape["at"]]).T, again)
                elif isinstance(follower, Path):
                    follower.push(now, count, again)
                elif isinstance(follower, Curve):
                    follower.follow(now, count)

    def to_array(self, state: State) -> np.ndarray:
        """Draw a state that was followed."""
        canvas = self._empty.copy()
        for block in self._moving:
            draw_block(canvas, block, now_of(block, state, self._memory.values), self._followers)
        return canvas.to_array()


def now_of(block: Json, state: Mapping[str, Any], remembered: Any = ()) -> Now:
    """Return the values that a block is drawn with."""
    return Now(state, {block["variable"]: np.arange(block["count"])} if "count" in block else None, remembered)


DRAW: dict[str, Callable[..., None]] = {
    "line": lambda canvas, points, ink, width: canvas.line(points, ink, width),
    "polygon": lambda canvas, points, ink: canvas.polygon(points, ink),
    "disc": lambda canvas, at, radius, ink: canvas.disc(at, radius, ink),
    "ring": lambda canvas, at, radius, ink, width: canvas.ring(at, radius, ink, width),
    "cross": lambda canvas, at, radius, ink, width: canvas.cross(at, radius, ink, width),
    "rectangle": lambda canvas, box, ink, corner: canvas.rectangle(*box, ink, corner=corner),
    "text": lambda canvas, at, words, size, ink, anchor: canvas.text(at, words, size, ink, anchor),
}
"""Functions that draw shapes, by name."""


def draw_block(canvas: Canvas, block: Json, now: Now, followers: Mapping[int, Trails | Curve | Path] | None = None) -> None:
    """Draw the shapes of a block, all of them for each index."""
    count, columns = block.get("count", 1), []
    for shape in block["shapes"]:
        column = column_of(shape, now, count, canvas)
        follower = followers.get(id(shape)) if followers else None
        if isinstance(follower, Trails):
            follower.draw(canvas, column["ink"], shape["size"])
        else:
            columns.append((shape["op"], column, now.values(shape.get("when", 1), count), follower))
    for index in range(count):
        for op, column, shown, follower in columns:
            if isinstance(follower, Curve):
                follower.draw(canvas, index, column["ink"][index], column["area"][index] if "area" in column else None)
            elif isinstance(follower, Path):
                follower.draw(canvas, now, index, column["ink"][index])
            elif shown[index]:
                DRAW[op](canvas, **{name: values[index] for name, values in column.items()})


def column_of(shape: Json, now: Now, count: int, canvas: Canvas) -> dict[str, list[Any]]:
    """Return the arguments of a shape by name, each with a value for each index."""
    column: dict[str, list[Any]] = {}
    for name in ("ink", "area"):
        if name in shape:
            column[name] = now.colours(shape[name], count, canvas.palette)
    if shape["op"] in KEPT:
        return column
    column |= {name: now.values(shape[name], count) for name in ("radius", "width", "corner", "size") if name in shape}
    for name in ("at", "box"):
        if name in shape:
            column[name] = [*zip(*(now.values(part, count) for part in shape[name]), strict=True)]
    if "points" in shape:
        points = [zip(now.values(x, count), now.values(y, count), strict=True) for x, y in shape["points"]]
        column["points"] = [*zip(*points, strict=True)]
    if "words" in shape:
        texts = [[part] * count if isinstance(part, str) else written(now, count, *part) for part in shape["words"]]
        column["words"] = ["".join(words) for words in zip(*texts, strict=True)]
        column["anchor"] = [shape["anchor"]] * count
    return column


def written(now: Now, count: int, number: Json, form: str | Sequence[str]) -> list[str]:
    """Return numbers as text in a format of Python, or the words with these indices."""
    values = now.values(number, count)
    if not isinstance(form, str):
        return [form[int(value)] for value in values]
    return [format(value if "f" in form else round(value), form) for value in values]
