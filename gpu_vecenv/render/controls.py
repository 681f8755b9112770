"""How a direction that a player holds, by keys or by a finger, becomes an action of an agent, as data for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpu_vecenv.render.expressions import Json, Number, Operand, Table, field, json_of
from gpu_vecenv.render.scene import At


class Held(NamedTuple):
    """Keys that a player holds, as numbers of a scene."""

    right: Number
    """From -1 (left) to 1 in the picture."""
    up: Number
    """From -1 (down) to 1 in the picture."""
    agent: Number
    """Number of the agent in its world."""
    choice: Number
    """Number of a choice of an entry of an action."""
    press: Number
    """1 while E is held, or a finger is on the agent; for what has no direction, such as loading."""


HELD = Held(field("held", 0), field("held", 1), field("held", 2), Number(["i", 0]), field("held", 3))
"""A page puts the direction, the agent and the press into a field ``held`` beside those of the state."""


class Controls(NamedTuple):
    """How the agents of a role are steered.

    Attributes:
        entries: for each entry of an action, from the first on, the score of ``held.choice``, of which a page takes the first
            choice with the largest score; or, for actions of a Box, the number itself. Policies choose entries without one.
        at: where the agent is in the first scene of the frame, in pixels, for fingers and for the ring around the agent.
        rests: True if the agent is steered while no direction is held, too; False leaves such steps to its policy.
    """

    entries: Sequence[Operand]
    at: At | None = None
    rests: bool = True

    @property
    def json(self) -> Json:
        """The controls as data."""
        return {
            "entries": [json_of(entry) for entry in self.entries],
            "at": None if self.at is None else [json_of(part) for part in self.at],
            "rests": self.rests,
        }


def toward(held: Held, directions: Sequence[tuple[float, float]]) -> Number:
    """Return scores that take the choice whose direction, right and up, is nearest to the one that is held, and else the first.

    Args:
        held: what the player holds.
        directions: of each choice a vector of length 1, or (0, 0).
    """
    right, up = (Table([direction[axis] for direction in directions])[held.choice] for axis in (0, 1))
    return right * held.right + up * held.up


def nearest_to(axis: Number, choice: Number, middle: float) -> Number:
    """Return scores that take the choice nearest to ``middle + axis``, such as 0, 1 and 2 for left, none and right."""
    score: Number = -abs(choice - middle - axis)
    return score


def plain_controls(choices: Sequence[int], bounds: Sequence[tuple[float, float]], held: Held = HELD) -> Controls | None:
    """Return the controls of agents whose renderer has none; None for actions that no direction can stand for.

    Left and right choose among two or three choices of the first entry of an action, and set the first number of a Box; up and
    down set its second.

    Args:
        choices: numbers of choices of the entries; empty for a Box.
        bounds: bounds of the numbers of a Box.
        held: what the player holds.
    """
    if bounds and all(abs(bound) < float("inf") for pair in bounds[:2] for bound in pair):
        axes = zip((held.right, held.up), bounds, strict=False)
        return Controls([(low + high) / 2 + axis * ((high - low) / 2) for axis, (low, high) in axes])
    if choices and choices[0] in (2, 3):
        middle = (choices[0] - 1) / 2
        return Controls([nearest_to(held.right, held.choice, middle)], rests=choices[0] == 3)
    return None
