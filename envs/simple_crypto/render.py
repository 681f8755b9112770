"""Draws one world of Crypto."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.mpe.scene import ALPHABET, Circle, Circles, ParticleRenderer, letter_of, one
from gpu_vecenv.envs.simple_crypto.spec import WORDS
from gpu_vecenv.render.expressions import Number, field
from gpu_vecenv.render.frame import Reading
from gpu_vecenv.render.scene import OneOf

ACROSS = (-0.7, 0.0, 0.7)  # places of Eve, Bob and Alice, who have none in the state


class Renderer(ParticleRenderer):
    """Eve, Bob and Alice in a row, each with the letter that it said; a ring is around those that said the message.

    See the base class.
    """

    title = "Simple Crypto"

    def circles(self, params: Mapping[str, Any], palette: Any) -> list[Circles]:
        """Return the three agents, and rings."""
        shown = []
        for k, (across, colour) in enumerate(zip(ACROSS, (palette.vermilion, palette.sky, palette.green), strict=True)):
            said, place = letter_of(WORDS, k), (Number(across), Number(0.0))
            shown.append(one(Circle(place, 0.2, colour, said=said)))
            shown.append(one(Circle(place, 0.25, palette.mark, hollow=True, when=said.is_(field("goal")))))
        return shown

    def readings(self, params: Mapping[str, Any]) -> tuple[Reading, ...]:
        """Return the message and the key."""
        return tuple(Reading(name, [OneOf(field(of), ALPHABET)]) for name, of in (("message", "goal"), ("key", "key")))
