"""Scripted policies: taggers that chase the runner, and a runner that flees from the nearest tagger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

STAY = 0
"""Action of an agent that has no better one."""


def chase(state: Mapping[str, Tensor], params: Mapping[str, Any], agents: Tensor) -> Tensor:
    """Return actions of taggers that step towards the runner, along the axis on which it is farther away.

    Args:
        state: fields of the env's state, (N, A).
        params: parameters of the env.
        agents: int64 (a,), numbers of the taggers.

    Returns:
        int64 (N, a).
    """
    x = state["loc_x"][:, -1:] - state["loc_x"][:, agents]
    y = state["loc_y"][:, -1:] - state["loc_y"][:, agents]
    return _step(x, y, x.abs() >= y.abs())


def flee(state: Mapping[str, Tensor], params: Mapping[str, Any], agents: Tensor) -> Tensor:
    """Return actions of a runner that goes to the free neighbouring cell that is farthest from its nearest tagger.

    Args:
        state: see ``chase()``.
        params: see ``chase()``.
        agents: int64 (a,), number of the runner.

    Returns:
        int64 (N, a).
    """
    taggers, side = slice(0, int(params["num_taggers"])), int(params["grid_length"])
    x, y = state["loc_x"][:, agents], state["loc_y"][:, agents]
    distances = []
    for dx, dy in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)):
        to_x, to_y = (x + dx).clamp(0, side), (y + dy).clamp(0, side)
        away = (state["loc_x"][:, None, taggers] - to_x[..., None]).abs()
        away = away + (state["loc_y"][:, None, taggers] - to_y[..., None]).abs()
        stopped = (to_x != x + dx) | (to_y != y + dy)
        # Steps to the nearest tagger count first, then those to all of them.
        nearest, total = away.amin(-1).float(), away.float().mean(-1)
        distances.append(torch.where(stopped, -1.0, nearest + total / (4 * side + 4)))
    return torch.stack(distances, dim=-1).argmax(-1)


def _step(x: Tensor, y: Tensor, along_x: Tensor) -> Tensor:
    """Return the action of a step by x or by y, towards positive or negative numbers; none where both are 0."""
    by_x = torch.where(x > 0, 1, 2)
    by_y = torch.where(y > 0, 3, 4)
    return torch.where((x == 0) & (y == 0), STAY, torch.where(along_x, by_x, by_y))


OPPONENTS = {"chase": ("tagger", chase), "flee": ("runner", flee)}
"""Names of scripted policies, with the role and the function of each."""
