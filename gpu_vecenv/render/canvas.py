"""Canvas for the environments' `render.py` files.

Pillow draws, so no display, window system or OpenGL is needed. It is imported when a canvas is made, not with this module.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_vecenv.errors import MissingExtraError, ParameterError
from gpu_vecenv.render.style import DEFAULT_STYLE, Colour, Style

if TYPE_CHECKING:
    from PIL import Image

Point = tuple[float, float]

SUPERSAMPLING = 2
"""Shapes are drawn at this multiple of the size and averaged down, which smooths edges."""

FARTHEST = 2.0**30
"""Maximum absolute coordinate in Pillow's pixels, which it counts in 32 bits."""

LARGEST_RADIUS = 2.0**18
"""Maximum radius of a circle in Pillow's pixels; some 700,000 take it half a minute."""


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


class Canvas:
    """A drawing surface with smooth edges.

    Positions and lengths are pixels of the finished picture at scale 1, x to the right and y downwards. They may be fractions.
    Positions may be outside the picture. Methods raise ParameterError for a position too far away to count its pixels, for a
    radius above 131,072 at scale 1, and for NaN.

    Args:
        width: Width of the finished picture in pixels at scale 1.
        height: Height of the finished picture in pixels at scale 1.
        background: Colour of the empty canvas; by default the page of the style's palette.
        style: Colours and scale.

    Raises:
        MissingExtraError: Pillow is not installed.
    """

    def __init__(
        self, width: float, height: float, background: Colour | None = None, style: Style = DEFAULT_STYLE
    ) -> None:
        self.palette, self._scale = style.palette, style.scale * SUPERSAMPLING
        size = (round(width * style.scale) * SUPERSAMPLING, round(height * style.scale) * SUPERSAMPLING)
        self._use(import_pillow().Image.new("RGB", size, background or style.palette.page))

    def _use(self, image: Image.Image) -> None:
        self._image = image
        self._draw = import_pillow().ImageDraw.Draw(image)

    def copy(self) -> Canvas:
        """Return an independent canvas with the same picture."""
        other = Canvas.__new__(Canvas)
        other.palette, other._scale = self.palette, self._scale
        other._use(self._image.copy())
        return other

    def line(self, points: Sequence[Point] | Sequence[float], colour: Colour, width: float = 1.0) -> None:
        """Draw an open line through `points`, given as pairs or as a flat x, y, x, y, ... sequence."""
        self._draw.line(self._scaled(points), colour, max(1, round(width * self._scale)))

    def polygon(self, points: Sequence[Point] | Sequence[float], colour: Colour) -> None:
        """Fill the polygon with corners `points`, given as pairs or as a flat sequence."""
        self._draw.polygon(self._scaled(points), colour)

    def disc(self, centre: Point, radius: float, colour: Colour) -> None:
        """Fill a circle."""
        self._draw.ellipse(self._box(centre, radius), colour)

    def ring(self, centre: Point, radius: float, colour: Colour, width: float = 1.0) -> None:
        """Draw the outline of a circle, `width` pixels thick and inside `radius`."""
        self._draw.ellipse(self._box(centre, radius), outline=colour, width=max(1, round(width * self._scale)))

    def cross(self, centre: Point, radius: float, colour: Colour, width: float = 1.0) -> None:
        """Draw a diagonal cross whose arms end on a circle of `radius`."""
        (x, y), arm = centre, radius * 0.7071
        self.line((x - arm, y - arm, x + arm, y + arm), colour, width)
        self.line((x - arm, y + arm, x + arm, y - arm), colour, width)

    def rectangle(
        self, left: float, top: float, right: float, bottom: float, colour: Colour, corner: float = 0.0
    ) -> None:
        """Fill a rectangle with edges at the given positions, its corners rounded by radius `corner`."""
        s = self._scale
        self._scaled((left, top, right, bottom))
        if right > left and bottom > top:
            # Pillow includes the last pixel.
            box = (left * s, top * s, max(left, right - 1 / s) * s, max(top, bottom - 1 / s) * s)
            self._draw.rounded_rectangle(box, min(corner, (right - left) / 2, (bottom - top) / 2) * s, colour)

    def text(
        self, position: Point, text: str, size: float, colour: Colour | None = None, anchor: str = "ls"
    ) -> None:
        """Write one line of text.

        Args:
            position: Position of the point that `anchor` names.
            text: The text.
            size: Height of the letters in pixels.
            colour: Colour of the letters; by default the palette's ink.
            anchor: Pillow's two letters: l, m or r for x (left, middle, right), s or m for y (base line, middle).
        """
        font = _font(max(1, round(size * self._scale)))
        self._draw.text(self._scaled(position), text, colour or self.palette.ink, font, anchor)

    def to_array(self) -> np.ndarray:
        """Return the finished picture, uint8 of shape (height, width, 3)."""
        return np.asarray(self._image.reduce(SUPERSAMPLING))

    def _scaled(self, points: Sequence[Any]) -> list[Any]:
        s = self._scale
        if isinstance(points[0], tuple):
            self._scaled([v for point in points for v in point])
            return [(x * s, y * s) for x, y in points]
        scaled = [v * s for v in points]
        for v in scaled:
            if not abs(v) <= FARTHEST:  # also for NaN
                limit = FARTHEST / s
                raise ParameterError(f"a picture needs coordinates from {-limit:g} to {limit:g} pixels, got {v / s:g}.")
        return scaled

    def _box(self, centre: Point, radius: float) -> tuple[float, float, float, float]:
        s = self._scale
        self._scaled(centre)
        if not radius * s <= LARGEST_RADIUS:
            raise ParameterError(f"a circle needs a radius up to {LARGEST_RADIUS / s:g} pixels, got {radius:g}.")
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
