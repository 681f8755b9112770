"""Draws one world of Crypto."""

from __future__ import annotations

import numpy as np

from gpu_vecenv.envs.mpe.scene import ALPHABET, Circle, ParticleRenderer, State, letter_of
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.style import Palette

PLACES = np.array([[-0.7, 0.0], [0.0, 0.0], [0.7, 0.0]])  # of Eve, Bob and Alice, who have none


class Renderer(ParticleRenderer):
    """Eve, Bob and Alice in a row, each with the letter that it said; a ring is around those that said the message.

    See the base class.
    """

    title = "Simple Crypto"

    def circles(self, state: State, palette: Palette) -> list[Circle]:
        """Return the three agents, and rings."""
        shown, message = [], ALPHABET[int(state["goal"])]
        for place, said, colour in zip(PLACES, state["comm"], (palette.vermilion, palette.sky, palette.green), strict=True):
            shown.append(Circle(place, 0.2, colour, letter_of(said)))
            if letter_of(said) == message:
                shown.append(Circle(place, 0.25, palette.mark, hollow=True))
        return shown

    def readings(self, state: State) -> tuple[Reading, ...]:
        """Return the message and the key."""
        return Reading("message", ALPHABET[int(state["goal"])]), Reading("key", ALPHABET[int(state["key"])])
