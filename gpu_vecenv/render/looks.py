"""Colours and line styles of curves, in pictures of a run and in figures of the documents."""

from __future__ import annotations

from typing import TypedDict

from gpu_vecenv.render.style import LIGHT, Colour


class Look(TypedDict):
    """Colour and style of a line, by the names that matplotlib gives them."""

    color: str
    linestyle: str | tuple[int, tuple[float, ...]]


BLUE: Colour = (0, 114, 178)
"""The blue of Okabe and Ito; the sky of videos is too light for thin lines on white."""

STYLES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (6, 1.5)), (0, (4, 1, 1, 1)), (0, (1, 1)))


def _looks(*colours: Colour) -> tuple[Look, ...]:
    shown = (f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in colours)
    return tuple(Look(color=colour, linestyle=style) for colour, style in zip(shown, STYLES, strict=True))


ROLES = _looks(LIGHT.vermilion, BLUE, LIGHT.green, LIGHT.mark)
"""Looks of policies in the order of the env, as roles have them in videos: taggers orange, runners blue."""

OTHERS = _looks((0, 105, 92), (106, 27, 154), (117, 117, 117), (141, 90, 43))
"""Looks of what is no role, such as libraries and ways to train: teal, purple, grey, brown."""

NEUTRAL = Look(color="#404040", linestyle="-")
"""Look of what belongs to no policy, such as the steps a second."""


def look_of_role(number: int) -> Look:
    """Return the look of a policy by its number among those of the env."""
    return ROLES[number % len(ROLES)]
