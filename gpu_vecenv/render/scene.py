"""Scenes: pictures of a world as data, which Pillow draws here (``scene_renderer.py``) and a canvas draws in a page.

A scene has the methods of ``Canvas``, and records the shapes. Their numbers and colours may depend on the state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gpu_vecenv.errors import SpecError
from gpu_vecenv.render.expressions import Ink, Inks, Json, Number, Operand, json_of, new_variable

At = tuple[Operand, Operand]
Condition = Number | bool | None
"""A shape is drawn where it is not 0; None for always."""

NEVER = 1e9
"""Steps since an event that did not happen in this episode."""


class Written(NamedTuple):
    """A number as text in a format of Python, such as ``",.0f"``."""

    number: Operand
    format: str = "d"

    @property
    def json(self) -> Json:
        """The number and the format as data."""
        return [json_of(self.number), self.format]


class OneOf(NamedTuple):
    """One of several words, by its number from 0 on."""

    number: Operand
    words: Sequence[str]

    @property
    def json(self) -> Json:
        """The index and the words as data."""
        return [json_of(self.number), list(self.words)]


Words = str | Sequence[str | Written | OneOf]
"""A text: words, and numbers and words of the state between them."""


class Remembered:
    """Numbers that follow the states of an episode, one for each index."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __getitem__(self, index: Operand) -> Number:
        return Number(["remembered", self._place, json_of(index)])


class Scene:
    """Shapes of a picture in the order of drawing. Positions and lengths are pixels of the finished picture at scale 1.

    Args:
        width: width of the picture.
        height: height of the picture.
        still_first: True draws what no state changes below all else, so that a page draws it once; for panels, whose shapes are
            beside each other.

    Attributes:
        palette: the colours of both themes, by the names of ``Palette``.
        memory: what is kept from state to state, in order.
    """

    def __init__(self, width: float, height: float, still_first: bool = False) -> None:
        self.width, self.height = width, height
        self.palette: Any = Inks()
        self._blocks: list[Json] = []
        self._still_first = still_first
        self.memory: list[Json] = []
        self._open = False

    @property
    def json(self) -> Json:
        """The scene as data."""
        return {"size": [self.width, self.height], "blocks": self.blocks, "memory": self.memory}

    @property
    def blocks(self) -> list[Json]:
        """The shapes as data. A block with a ``count`` is drawn once for each value of its ``variable``."""
        return sorted(shape_by_shape(self._blocks), key=depends_on_state) if self._still_first else self._blocks

    @contextlib.contextmanager
    def each(self, count: int) -> Iterator[Number]:
        """Draw the shapes of the block once for each i from 0 to ``count - 1``, which is what the block gets.

        Raises:
            SpecError: a block inside a block.
        """
        if self._open:
            raise SpecError("each() of a scene cannot be inside another one; count over both at once.")
        variable, self._open = new_variable(), True
        self._blocks.append({"count": count, "variable": variable.json[1], "shapes": []})
        try:
            yield variable
        finally:
            self._open = False

    def _add(self, op: str, colour: Ink, when: Condition, **properties: Any) -> None:
        shape = {"op": op, "ink": colour.json, **{name: json_of(value) for name, value in properties.items()}}
        if when is not None:
            shape["when"] = json_of(when)
        if self._open:
            self._blocks[-1]["shapes"].append(shape)
        elif self._blocks and "count" not in self._blocks[-1]:
            self._blocks[-1]["shapes"].append(shape)
        else:
            self._blocks.append({"shapes": [shape]})

    # ---- shapes -----------------------------------------------------------------------------------------------

    def line(self, points: Sequence[Any], colour: Ink, width: Operand = 1.0, when: Condition = None) -> None:
        """Draw an open line through ``points``, given as pairs or as a flat x, y, x, y, ... sequence."""
        self._add("line", colour, when, points=_pairs(points), width=width)

    def polygon(self, points: Sequence[Any], colour: Ink, when: Condition = None) -> None:
        """Fill the polygon with corners ``points``."""
        self._add("polygon", colour, when, points=_pairs(points))

    def disc(self, centre: At, radius: Operand, colour: Ink, when: Condition = None) -> None:
        """Fill a circle."""
        self._add("disc", colour, when, at=centre, radius=radius)

    def ring(self, centre: At, radius: Operand, colour: Ink, width: Operand = 1.0, when: Condition = None) -> None:
        """Draw the outline of a circle, ``width`` pixels thick and inside ``radius``."""
        self._add("ring", colour, when, at=centre, radius=radius, width=width)

    def cross(self, centre: At, radius: Operand, colour: Ink, width: Operand = 1.0, when: Condition = None) -> None:
        """Draw a diagonal cross whose arms end on a circle of ``radius``."""
        self._add("cross", colour, when, at=centre, radius=radius, width=width)

    def rectangle(
        self, left: Operand, top: Operand, right: Operand, bottom: Operand, colour: Ink, corner: Operand = 0.0,
        when: Condition = None,
    ) -> None:  # fmt: skip
        """Fill a rectangle with edges at the given positions, its corners rounded by radius ``corner``."""
        self._add("rectangle", colour, when, box=(left, top, right, bottom), corner=corner)

    def text(
        self, position: At, words: Words, size: Operand, colour: Ink | None = None, anchor: str = "ls",
        when: Condition = None,
    ) -> None:  # fmt: skip
        """Write one line of text; see ``Canvas.text()``. Words may hold numbers of the state."""
        parts = [words] if isinstance(words, str) else [part if isinstance(part, str) else part.json for part in words]
        self._add("text", colour or self.palette.ink, when, at=position, words=parts, size=size, anchor=anchor)

    # ---- what is kept from state to state ---------------------------------------------------------------------

    def trail(self, centre: At, size: float, steps: int, colour: Ink) -> None:
        """Draw where an agent was in the last steps, a multiple of four; the only shape of its block.

        Args:
            centre: present position.
            size: size of the agent in pixels.
            steps: length.
            colour: colour of its newest end.
        """
        self._add("trail", colour, None, at=centre, size=size, steps=steps)

    def curve(
        self, box: tuple[float, float, float, float], share: Operand, value: Operand, colour: Ink, highest: float | None = None,
        floor: float = 1.0, inset: float = 0.0, width: float = 2.0, dot: float = 4.0, area: Ink | None = None,
        when: Condition = None,
    ) -> None:  # fmt: skip
        """Draw a number over the states of an episode.

        Args:
            box: left, top, right and bottom edge.
            share: place from left to right; beyond 1 it is drawn at 1. Of states in one place the last one counts.
            value: the number.
            colour: of the line and of the dot at its end.
            highest: value at the top; None for the largest value so far.
            floor: least value at the top, for None.
            inset: pixels of the box above the top.
            width: of the line.
            dot: radius of the dot.
            area: colour of the area below the line.
            when: states without this condition are left out.
        """
        self._add("curve", colour, when, box=box, share=share, value=value, highest=highest, floor=floor, inset=inset,
                  width=width, dot=dot, **({} if area is None else {"area": area}))  # fmt: skip

    def columns(
        self, box: tuple[float, float, float, float], share: Operand, width: float, value: Operand, colour: Ink,
        when: Condition = None,
    ) -> None:  # fmt: skip
        """Draw a column for each state of an episode.

        Args:
            box: left, top, right and bottom edge.
            share: left edge of the column in the box, from 0 to 1. Of states in one place the last one counts.
            width: of a column, as a share of the box.
            value: height of the column, as a share of the box, drawn up to 1.
            colour: of the columns.
            when: states without this condition are left out.
        """
        self._add("columns", colour, when, box=box, share=share, width=width, value=value)

    def path(
        self, seen: At, colour: Ink, width: float, joined: Condition = None, place: Callable[[Number, Number], At] | None = None
    ) -> None:  # fmt: skip
        """Draw a line through what was seen in the states of an episode.

        Args:
            seen: two numbers of a state, which are kept: a position, unless there is ``place``.
            colour: of the line.
            width: of the line.
            joined: states without this condition are not joined with the state before.
            place: returns the present position of two numbers that were kept, so that axes may grow.
        """
        one, two = new_variable(), new_variable()
        self._add("path", colour, None, seen=seen, at=(one, two) if place is None else place(one, two), variables=(one, two),
                  width=width, joined=1 if joined is None else joined)  # fmt: skip

    def age(self, count: int, event: Callable[[Number], Number]) -> Remembered:
        """Return the steps since ``event(i)`` was last not 0 in this episode, 0 for now; ``NEVER`` if it was not."""
        return self._remember("age", count, event)

    def before(self, count: int, number: Callable[[Number], Number]) -> Remembered:
        """Return ``number(i)`` in the state before; its present value in the first state of an episode. Use it in events."""
        return self._remember("before", count, number)

    def highest(self, count: int, number: Callable[[Number], Operand]) -> Remembered:
        """Return the largest ``number(i)`` of the episode so far."""
        return self._remember("highest", count, number)

    def held(self, count: int, number: Callable[[Number], Operand], event: Callable[[Number], Operand]) -> Remembered:
        """Return ``number(i)`` in the last state of the episode with ``event(i)`` not 0, or in its first state."""
        return self._remember("held", count, number, event)

    def now(self, count: int, number: Callable[[Number], Operand]) -> Remembered:
        """Return ``number(i)``, computed once for all shapes that use it."""
        return self._remember("now", count, number)

    def _remember(
        self, kind: str, count: int, number: Callable[[Number], Operand], event: Callable[[Number], Operand] | None = None
    ) -> Remembered:
        variable = new_variable()
        entry = {"kind": kind, "count": count, "variable": variable.json[1], "number": json_of(number(variable))}
        self.memory.append(entry if event is None else {**entry, "event": json_of(event(variable))})
        return Remembered(len(self.memory) - 1)


KEPT = ("trail", "curve", "columns", "path")
"""Shapes that follow the states of an episode."""


def shape_by_shape(blocks: Sequence[Json]) -> list[Json]:
    """Return blocks of one shape each, but for those with a count."""
    return [part for block in blocks for part in ([block] if "count" in block else [{"shapes": [x]} for x in block["shapes"]])]


def depends_on_state(json: Json) -> bool:
    """Return True if a part of a description reads the state or follows it."""
    if isinstance(json, dict):
        return json.get("op") in KEPT or any(map(depends_on_state, json.values()))
    return isinstance(json, list) and (json[:1] in (["field"], ["remembered"]) or any(map(depends_on_state, json)))


def _pairs(points: Sequence[Any]) -> list[Any]:
    """Return points as pairs."""
    points = list(points)
    if points and isinstance(points[0], tuple | list):
        return points
    return [*zip(points[::2], points[1::2], strict=True)]


class Glyph(NamedTuple):
    """Entry of a legend: a word, and the function that draws its shapes around a centre, at most 12 pixels to each side."""

    word: str
    draw: Callable[[Scene, At], None]

    def shapes(self, centre: At) -> Scene:
        """Return a scene with the shapes around a centre."""
        scene = Scene(24, 24)
        self.draw(scene, centre)
        return scene


class Pictures(NamedTuple):
    """Pictures of a world.

    Attributes:
        frame: scenes of one height, side by side; of one width, one above the other, if ``stacked``.
        scene: scenes of one width, one above the other: a part of a picture that has one legend; none for ``frame``.
        legend: names of the shapes in ``scene``.
        stacked: how ``frame`` is put together.
    """

    frame: tuple[Scene, ...]
    scene: tuple[Scene, ...] = ()
    legend: tuple[Glyph, ...] = ()
    stacked: bool = False

    @property
    def json(self) -> Json:
        """The pictures as data. A scene that is in both is in ``scenes`` once."""
        scenes = list(dict.fromkeys((*self.frame, *self.scene)))
        return {
            "scenes": [scene.json for scene in scenes],
            "frame": [scenes.index(scene) for scene in self.frame],
            "scene": [scenes.index(scene) for scene in self.scene],
            "stacked": self.stacked,
            "legend": [[glyph.word, glyph.shapes((12.0, 12.0)).json] for glyph in self.legend],
        }
