"""Canvas and colours for the environments' `render.py` files.

Pillow draws, so no display, window system or OpenGL is needed. It is imported when a canvas is made, not with this module.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpu_vecenv.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from PIL import Image

Colour = tuple[int, int, int]
Point = tuple[float, float]

SUPERSAMPLING = 2
"""Shapes are drawn at this multiple of the size and averaged down, which smooths edges."""


class Palette(NamedTuple):
    """Colours of every picture. People with the common colour-vision deficiencies can tell the four accents apart.

    The accents come from M. Okabe and K. Ito, "Color Universal Design" (2002).
    """

    page: Colour = (13, 18, 27)
    surface: Colour = (22, 29, 41)
    grid: Colour = (37, 47, 64)
    border: Colour = (84, 98, 120)
    ink: Colour = (236, 240, 246)
    muted: Colour = (146, 158, 176)
    faded: Colour = (104, 115, 133)
    vermilion: Colour = (213, 94, 0)
    sky: Colour = (86, 180, 233)
    yellow: Colour = (240, 228, 66)
    green: Colour = (0, 158, 115)


PALETTE = Palette()


def import_pillow() -> ModuleType:
    """Import Pillow with the submodules that drawing needs.

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise MissingExtraError('drawing needs Pillow: pip install "gpu-vecenv[render]"') from error
    return PIL


@functools.cache
def _font(size: int) -> Any:
    return import_pillow().ImageFont.load_default(size)


def mix(colour: Colour, background: Colour, opacity: float) -> Colour:
    """Return `colour` laid over `background` with `opacity` in [0, 1]."""
    red, green, blue = (round(b + (c - b) * opacity) for c, b in zip(colour, background, strict=True))
    return red, green, blue


class Canvas:
    """A drawing surface with smooth edges.

    Positions and lengths are pixels of the finished picture, x to the right and y downwards. They may be fractions.

    Args:
        width: Width of the finished picture in pixels.
        height: Height of the finished picture in pixels.
        background: Colour of the empty canvas.

    Raises:
        MissingExtraError: Pillow is not installed.
    """

    def __init__(self, width: int, height: int, background: Colour = PALETTE.page) -> None:
        size = (width * SUPERSAMPLING, height * SUPERSAMPLING)
        self._use(import_pillow().Image.new("RGB", size, background))

    def _use(self, image: Image.Image) -> None:
        self._image = image
        self._draw = import_pillow().ImageDraw.Draw(image)

    def copy(self) -> Canvas:
        """Return an independent canvas with the same picture."""
        other = Canvas.__new__(Canvas)
        other._use(self._image.copy())
        return other

    def line(self, points: Sequence[Point] | Sequence[float], colour: Colour, width: float = 1.0) -> None:
        """Draw an open line through `points`, given as pairs or as a flat x, y, x, y, ... sequence."""
        self._draw.line(_scaled(points), colour, max(1, round(width * SUPERSAMPLING)))

    def polygon(self, points: Sequence[Point] | Sequence[float], colour: Colour) -> None:
        """Fill the polygon with corners `points`, given as pairs or as a flat sequence."""
        self._draw.polygon(_scaled(points), colour)

    def disc(self, centre: Point, radius: float, colour: Colour) -> None:
        """Fill a circle."""
        self._draw.ellipse(_box(centre, radius), colour)

    def ring(self, centre: Point, radius: float, colour: Colour, width: float = 1.0) -> None:
        """Draw the outline of a circle, `width` pixels thick and inside `radius`."""
        self._draw.ellipse(_box(centre, radius), outline=colour, width=max(1, round(width * SUPERSAMPLING)))

    def cross(self, centre: Point, radius: float, colour: Colour, width: float = 1.0) -> None:
        """Draw a diagonal cross whose arms end on a circle of `radius`."""
        (x, y), arm = centre, radius * 0.7071
        self.line((x - arm, y - arm, x + arm, y + arm), colour, width)
        self.line((x - arm, y + arm, x + arm, y - arm), colour, width)

    def rectangle(
        self, left: float, top: float, right: float, bottom: float, colour: Colour, corner: float = 0.0
    ) -> None:
        """Fill a rectangle with edges at the given positions, its corners rounded by radius `corner`."""
        s = SUPERSAMPLING
        if right > left and bottom > top:
            # Pillow includes the last pixel.
            box = (left * s, top * s, max(left, right - 1 / s) * s, max(top, bottom - 1 / s) * s)
            self._draw.rounded_rectangle(box, min(corner, (right - left) / 2, (bottom - top) / 2) * s, colour)

    def text(
        self, position: Point, text: str, size: int, colour: Colour = PALETTE.ink, anchor: str = "ls"
    ) -> None:
        """Write one line of text.

        Args:
            position: Position of the point that `anchor` names.
            text: The text.
            size: Height of the letters in pixels.
            colour: Colour of the letters.
            anchor: Pillow's two letters: l, m or r for x (left, middle, right), s or m for y (base line, middle).
        """
        self._draw.text(_scaled(position), text, colour, _font(size * SUPERSAMPLING), anchor)

    def to_array(self) -> np.ndarray:
        """Return the finished picture, uint8 of shape (height, width, 3)."""
        return np.asarray(self._image.reduce(SUPERSAMPLING))


def _scaled(points: Sequence[Any]) -> list[Any]:
    if isinstance(points[0], tuple):
        return [(x * SUPERSAMPLING, y * SUPERSAMPLING) for x, y in points]
    return [v * SUPERSAMPLING for v in points]


def _box(centre: Point, radius: float) -> tuple[float, float, float, float]:
    s = SUPERSAMPLING
    # Pillow's box includes its last pixel; subtracting it keeps the circle centred on `centre`.
    left, top = (centre[0] - radius) * s, (centre[1] - radius) * s
    return left, top, left + max(1.0, 2 * radius * s - 1), top + max(1.0, 2 * radius * s - 1)


@functools.cache
def has_renderer(folder: Path) -> bool:
    """True if the environment in `folder` can be drawn."""
    return (folder / "render.py").is_file()


def find_renderer(folder: Path) -> type:
    """Return the class `Renderer` of `folder/render.py`.

    Args:
        folder: Folder of an environment.

    Raises:
        ParameterError: The folder has no `render.py`, or that file has no class `Renderer`.
    """
    path = folder.resolve() / "render.py"
    if not path.is_file():
        raise ParameterError(f"drawing needs {path} with a class Renderer; there is no such file")
    name = f"gpu_vecenv_render_{folder.name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ParameterError(f"Python cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling find the module of a class by this name
    spec.loader.exec_module(module)
    renderer = getattr(module, "Renderer", None)
    if not isinstance(renderer, type):
        raise ParameterError(f"{path} must define a class Renderer; it defines none")
    return renderer
