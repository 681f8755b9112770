"""Legends: one strip that names the shapes of a picture in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.style import Style

HEIGHT = 56
TEXT = 20
GLYPH, SPACE = 44, 36  # widths of a shape with the gap before its word, and of the gap between entries, in pixels
LETTER = 0.58 * TEXT  # width of a letter, rounded up


class Entry(NamedTuple):
    """A word, and the function that draws its shape around a centre, at most 12 pixels to each side."""

    word: str
    draw: Callable[[Canvas, Point], None]


def entry_width(word: str) -> float:
    """Return the width of an entry in pixels."""
    return GLYPH + LETTER * len(word)


def draw_legend(entries: Sequence[Entry], width: int, style: Style) -> np.ndarray:
    """Draw a strip with a shape and a word for each entry, in its middle.

    Args:
        entries: Words and shapes of the strip, in order.
        width: Width of the strip in pixels of the finished picture. If the entries are wider, they are drawn smaller.
        style: Colours and scale.

    Returns:
        The strip, uint8 of shape (H, `width`, 3).
    """
    widths = [entry_width(entry.word) for entry in entries]
    needed = sum(widths) + SPACE * (len(entries) + 1)
    scale = min(style.scale, width / needed)
    canvas = Canvas(width / scale, HEIGHT, style=style._replace(scale=scale))
    at = (width / scale - needed) / 2 + SPACE
    for entry, width_of_entry in zip(entries, widths, strict=True):
        entry.draw(canvas, (at + GLYPH / 2 - 4, HEIGHT / 2))
        canvas.text((at + GLYPH, HEIGHT / 2), entry.word, TEXT, anchor="lm")
        at += width_of_entry + SPACE
    return canvas.to_array()
