"""Pictures of particle environments: circles on a plane, as mpe2 draws them, with the letters of what agents say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.frame import FOOTER, HEADER, Panel, Reading
from gpu_vecenv.render.style import DEFAULT_STYLE, Colour, Palette, Style

WIDTH, SIDE = 560, 520
HEIGHT = HEADER + SIDE + FOOTER
MIDDLE = (WIDTH / 2, HEADER + SIDE / 2)
USUAL_REACH, FARTHEST = 1.2, 1000.0  # coordinate at the edge of the picture; places beyond the last one are not drawn
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

State = Mapping[str, np.ndarray]


class Circle(NamedTuple):
    """A circle: its place, radius and colour, a letter in its middle, and True for an outline alone."""

    place: np.ndarray
    radius: float
    colour: Colour
    letter: str = ""
    hollow: bool = False


def letter_of(words: np.ndarray) -> str:
    """Return the letter of what an agent said: of the largest number, or _ if it said nothing."""
    return ALPHABET[int(np.argmax(words))] if np.any(words) else "_"


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Distance of two points."""
    return float(np.linalg.norm(np.asarray(a, float) - np.asarray(b, float)))


class ParticleRenderer:
    """Pictures of one world. The picture shows places up to 1.2, or zooms out to the farthest one, as that of mpe2 does.

    A scenario is a subclass with `title`, `circles` and `readings`.

    Args:
        params: The environment's resolved parameters.
        style: Colours and scale.
    """

    title = ""

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self.params = params
        self._panel = Panel(self.title, int(params["max_cycles"]), WIDTH, HEIGHT, style)
        self._empty = self._panel.empty()

    def reset(self) -> None:
        """Do nothing: no data are kept between frames."""

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return what is drawn, the lowest first."""
        raise NotImplementedError

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return at most two numbers or words below the picture."""
        raise NotImplementedError

    def frame(self, state: State) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis, with the names of the spec, and the scalar `t`.

        Returns:
            The picture, uint8 of shape (664, 560, 3) at scale 1.
        """
        canvas = self._empty.copy()
        circles = [c for c in self.circles(state, canvas.palette) if np.abs(c.place).max() < FARTHEST]  # False for NaN
        reach = max([USUAL_REACH, *(float(np.abs(circle.place).max()) / 0.9 for circle in circles)])
        scale = SIDE / 2 / reach
        for circle in circles:
            self._draw(canvas, circle, scale)
        self._panel.write(canvas, int(state["t"]), self.readings(state))
        return canvas.to_array()

    def _draw(self, canvas: Canvas, circle: Circle, scale: float) -> None:
        at = (MIDDLE[0] + scale * float(circle.place[0]), MIDDLE[1] - scale * float(circle.place[1]))
        radius = max(2.0, scale * circle.radius)
        if circle.hollow:
            canvas.ring(at, radius, circle.colour, 3.0)
        else:
            canvas.disc(at, radius + 1.0, canvas.palette.page)
            canvas.disc(at, radius, circle.colour)
        if circle.letter:
            canvas.text((at[0], at[1] - radius - 4.0), circle.letter, 18, anchor="ms")
