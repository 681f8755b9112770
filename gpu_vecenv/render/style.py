"""Colours and size of pictures."""

from __future__ import annotations

from typing import NamedTuple

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.validation import abbreviated, real_number, require_one_of

Colour = tuple[int, int, int]

MIN_SCALE, MAX_SCALE = 0.1, 8.0
"""Limits of the scale: below, agents are smaller than a pixel; above, one frame needs hundreds of MB."""


class Palette(NamedTuple):
    """Colours of a picture; the defaults are those of the dark theme.

    People with the common colour-vision deficiencies can tell the accents vermilion, sky, green and mark apart. Most accents come
    from M. Okabe and K. Ito, "Color Universal Design" (2002).
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
    green: Colour = (0, 158, 115)
    mark: Colour = (240, 228, 66)
    """Events and reached goals: yellow, and purple on white, where yellow is hard to see."""


DARK = Palette()
LIGHT = Palette(
    page=(247, 248, 250),
    surface=(255, 255, 255),
    grid=(226, 230, 236),
    border=(138, 149, 166),
    ink=(24, 31, 43),
    muted=(88, 99, 117),
    faded=(150, 158, 171),
    mark=(150, 40, 110),
)
THEMES = {"dark": DARK, "light": LIGHT}


class Style(NamedTuple):
    """Colours of a picture, and the factor on its width and height."""

    palette: Palette = DARK
    scale: float = 1.0

    @property
    def theme(self) -> str:
        """Name of the palette's theme."""
        return next(name for name, palette in THEMES.items() if palette == self.palette)


DEFAULT_STYLE = Style()


def make_style(theme: str = "dark", scale: float = 1.0, names: tuple[str, str] = ("theme", "scale")) -> Style:
    """Return the style of a theme.

    Args:
        theme: "dark" or "light".
        scale: Factor on width and height of a picture, from 0.1 to 8.
        names: Names of the two options in errors.

    Raises:
        ParameterError: Another theme, or a scale out of range.
    """
    require_one_of(names[0], theme, tuple(THEMES))
    factor = real_number(scale)
    if factor is None or not MIN_SCALE <= factor <= MAX_SCALE:
        raise ParameterError(f"{names[1]} must be a number from {MIN_SCALE:g} to {MAX_SCALE:g}; got {abbreviated(scale)}")
    return Style(THEMES[theme], float(factor))


def mix(colour: Colour, background: Colour, opacity: float) -> Colour:
    """Return `colour` laid over `background` with `opacity` in [0, 1]."""
    red, green, blue = (round(b + (c - b) * opacity) for c, b in zip(colour, background, strict=True))
    return red, green, blue
