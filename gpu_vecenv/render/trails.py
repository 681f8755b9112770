"""Trails behind things that move, fading towards their old ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from gpu_vecenv.render.canvas import PALETTE, Canvas, Colour, mix

OPACITIES = (0.15, 0.3, 0.48, 0.7)  # oldest part first


class Trails:
    """The places of the last steps.

    Args:
        steps: Length of a trail in steps, a multiple of four.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._places: deque[np.ndarray] = deque(maxlen=steps + 1)

    def clear(self) -> None:
        """Forget all places."""
        self._places.clear()

    def push(self, places: np.ndarray, again: bool = False) -> None:
        """Append where everybody is now, in pixels, shape (n, 2); `again` replaces the places of the last call."""
        if again:
            self._places.pop()
        self._places.append(places)

    def draw(self, canvas: Canvas, colours: Sequence[Colour], size: float) -> None:
        """Draw a trail for each who moved.

        Args:
            canvas: Where to draw.
            colours: One colour for each row of the places.
            size: Size in pixels of those who leave the trails.
        """
        places = np.stack(self._places, axis=1)  # (n, steps, 2)
        part = self._steps // len(OPACITIES)
        for k, opacity in enumerate(OPACITIES):
            # Counted from the newest end: a young trail looks like the young end of a long one.
            stop = places.shape[1] - part * (len(OPACITIES) - 1 - k)
            piece = places[:, max(0, stop - part - 1) : max(0, stop)]
            if piece.shape[1] < 2:
                continue
            moved = (piece[:, 1:] != piece[:, :-1]).any(axis=(1, 2))
            lines = piece.reshape(len(piece), -1).tolist()
            width = max(1.0, 0.4 * size * opacity)
            faded = {colour: mix(colour, PALETTE.surface, opacity) for colour in set(colours)}
            for i in np.flatnonzero(moved).tolist():
                canvas.line(lines[i], faded[colours[i]], width)
