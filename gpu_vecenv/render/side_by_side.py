"""Two sequences of frames side by side, such as random and trained play under one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.legend import Entry, draw_legend
from gpu_vecenv.render.style import DEFAULT_STYLE, Style
from gpu_vecenv.render.video import even
from gpu_vecenv.render.worlds import check_frames

TITLE_HEIGHT = 64
GAP = 8
"""Pixels between the two frames."""


def side_by_side(
    left: Iterable[np.ndarray],
    right: Iterable[np.ndarray],
    titles: tuple[str, str],
    legend: Sequence[Entry] = (),
    style: Style = DEFAULT_STYLE,
) -> Iterator[np.ndarray]:
    """Yield pictures of two frames with a title above each and one legend below.

    If one sequence ends earlier, its last frame stays until the other ends. Frames are read one at a time.

    Args:
        left: Frames, uint8, all of one shape (H, W, 3).
        right: Frames of the same dtype and shape.
        titles: Text above the left and the right frame.
        legend: Entries of the legend, such as `WorldRenderers.legend`; none by default.
        style: Colours of titles and legend, and the scale that the frames were drawn with.

    Yields:
        Pictures, uint8, all of one shape. Width and height are even, because video codecs need that.

    Raises:
        ParameterError: Not two titles, or a sequence without frames.
        ShapeError: A frame's shape is not (H, W, 3), or differs from that of the first frame.
        ArrayTypeError: A frame is not uint8.
        MissingExtraError: Pillow is not installed.
    """
    if isinstance(titles, str) or len(titles) != 2:
        raise ParameterError(f"titles must be two texts; got {titles!r}")
    sequences = (iter(left), iter(right))
    following = [next(sequence, None) for sequence in sequences]
    first = following[0]
    if first is None or following[1] is None:
        raise ParameterError("each of the two sequences must have at least one frame; got none")
    check_frames([first])
    gap = np.full((len(first), GAP, 3), style.palette.page, np.uint8)
    width = 2 * first.shape[1] + GAP
    above = _draw_titles(titles, width, style)
    below = draw_legend(legend, width, style) if legend else above[:0]
    shown = [first, first]
    while any(frame is not None for frame in following):
        shown = [old if new is None else new for old, new in zip(shown, following, strict=True)]
        check_frames([first, *shown])
        yield even(np.concatenate([above, np.concatenate([shown[0], gap, shown[1]], axis=1), below]))
        following = [next(sequence, None) for sequence in sequences]


def _draw_titles(titles: tuple[str, str], width: int, style: Style) -> np.ndarray:
    canvas = Canvas(width / style.scale, TITLE_HEIGHT, style=style)
    for title, part in zip(titles, (0.25, 0.75), strict=True):
        canvas.text((part * width / style.scale, TITLE_HEIGHT / 2), title, 32, anchor="mm")
    return canvas.to_array()

