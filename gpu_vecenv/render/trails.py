"""Trails behind moving agents, which fade towards their old ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.style import Colour, mix

OPACITIES = (0.15, 0.3, 0.48, 0.7)  # oldest part first


class Trails:
    """Positions of agents in the last steps.

    Args:
        steps: Length of a trail in steps, a multiple of four.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._positions: deque[np.ndarray] = deque(maxlen=steps + 1)

    def clear(self) -> None:
        """Forget all positions."""
        self._positions.clear()

    def push(self, positions: np.ndarray, again: bool = False) -> None:
        """Append the present positions in pixels, shape (n, 2); `again` replaces those of the last call."""
        if again:
            self._positions.pop()
        self._positions.append(positions)

    def draw(self, canvas: Canvas, colours: Sequence[Colour], size: float) -> None:
        """Draw a trail behind each agent that moved.

        Args:
            canvas: Canvas to draw on.
            colours: One colour for each agent.
            size: Size of an agent in pixels.
        """
        positions = np.stack(self._positions, axis=1)  # (n, steps, 2)
        part = self._steps // len(OPACITIES)
        for k, opacity in enumerate(OPACITIES):
            # Parts are counted from the newest position, so that a short trail looks like the new end of a long one.
            stop = positions.shape[1] - part * (len(OPACITIES) - 1 - k)
            piece = positions[:, max(0, stop - part - 1) : max(0, stop)]
            if piece.shape[1] < 2:
                continue
            moved = (piece[:, 1:] != piece[:, :-1]).any(axis=(1, 2))
            lines = piece.reshape(len(piece), -1).tolist()
            width = max(1.0, 0.4 * size * opacity)
            faded = {colour: mix(colour, canvas.palette.surface, opacity) for colour in set(colours)}
            for i in np.flatnonzero(moved).tolist():
                canvas.line(lines[i], faded[colours[i]], width)
