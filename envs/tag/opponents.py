"""Scripted policies: taggers that chase the nearest runner, and runners that flee from the nearest tagger."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Number = float | Tensor
"""A number of all worlds, or (N, 1)."""

NEAR_EDGE = 1.5
"""Steps at top speed within which a fleeing runner turns along an edge."""


def chase(state: Mapping[str, Tensor], params: Mapping[str, Any], agents: Tensor) -> Tensor:
    """Return actions of taggers that head for the nearest runner in the game at full speed.

    Args:
        state: fields of the env's state, (N, A).
        params: parameters of the env; those by world are tensors (N,).
        agents: int64 (a,), numbers of the taggers.

    Returns:
        Actions of the form that the parameters choose, (N, a) or (N, a, 2).
    """
    x, y = _to_nearest(state, agents, slice(int(params["num_taggers"]), None))
    return _heading(torch.atan2(y, x), state, params, agents)


def flee(state: Mapping[str, Tensor], params: Mapping[str, Any], agents: Tensor) -> Tensor:
    """Return actions of runners that head away from the nearest tagger at full speed, and along an edge close to it.

    Args:
        state: see ``chase()``.
        params: see ``chase()``.
        agents: int64 (a,), numbers of the runners.

    Returns:
        See ``chase()``.
    """
    x, y = _to_nearest(state, agents, slice(0, int(params["num_taggers"])))
    side = _number(params, "grid_length")
    margin = _at_most(NEAR_EDGE * _number(params, "max_speed") * _number(params, "skill_level_runner"), side / 4)
    blocked_x, inward_x = _edge(-x, state["loc_x"][:, agents], margin, side)
    blocked_y, inward_y = _edge(-y, state["loc_y"][:, agents], margin, side)
    # In a corner the runner takes the edge across the tagger's way.
    corner, by_x = blocked_x & blocked_y, x.abs() < y.abs()
    along_x = torch.where(corner & by_x, inward_x, torch.where(blocked_x, 0.0, -x))
    along_y = torch.where(corner & ~by_x, inward_y, torch.where(blocked_y, 0.0, -y))
    return _heading(torch.atan2(along_y, along_x), state, params, agents)


def _to_nearest(state: Mapping[str, Tensor], agents: Tensor, opponents: slice) -> tuple[Tensor, Tensor]:
    """Return the way from each agent to the nearest opponent in the game, (N, a) in x and in y; of equals to the first one."""
    x = state["loc_x"][:, None, opponents] - state["loc_x"][:, agents, None]
    y = state["loc_y"][:, None, opponents] - state["loc_y"][:, agents, None]
    square = torch.where(state["alive"][:, None, opponents] > 0, x * x + y * y, math.inf)
    nearest = square.argmin(-1, keepdim=True)
    return x.gather(-1, nearest).squeeze(-1), y.gather(-1, nearest).squeeze(-1)


def _number(params: Mapping[str, Any], name: str) -> Number:
    """Return a parameter: a number, or float64 (N, 1) if it differs between worlds."""
    value = params[name]
    return value.double().unsqueeze(-1) if isinstance(value, Tensor) else float(value)


def _at_most(value: Number, limit: Number) -> Number:
    """Return the smaller one of two numbers, of each world if one of them differs between worlds."""
    if isinstance(value, Tensor):
        return value.clamp(max=limit)
    return limit.clamp(max=value) if isinstance(limit, Tensor) else min(value, limit)


def _edge(along: Tensor, place: Tensor, margin: Number, side: Number) -> tuple[Tensor, Tensor]:
    """Return where an edge is in the way along one axis, bool (N, a), and the direction that leads from the nearer edge."""
    blocked = ((place < margin) & (along < 0)) | ((place > side - margin) & (along > 0))
    return blocked, torch.where(place > side / 2, -1.0, 1.0)


def _heading(angle: Tensor, state: Mapping[str, Tensor], params: Mapping[str, Any], agents: Tensor) -> Tensor:
    """Return actions that accelerate most, and turn as far as possible to headings in radians, (N, a)."""
    turn = torch.remainder(angle - state["direction"][:, agents] + math.pi, 2 * math.pi) - math.pi
    if params["continuous_actions"]:
        turn = turn.clamp(min=_number(params, "min_turn")).clamp(max=_number(params, "max_turn"))
        return torch.stack((torch.zeros_like(turn) + _number(params, "max_acceleration"), turn), dim=-1).float()
    fastest = torch.zeros_like(turn, dtype=torch.int64) + _fastest(params)
    turned = _nearest_level(turn, _number(params, "min_turn"), _number(params, "max_turn"), int(params["num_turn_levels"]))
    if params["flatten_actions"]:
        return fastest * (int(params["num_turn_levels"]) + 1) + turned
    return torch.stack((fastest, turned), dim=-1)


def _fastest(params: Mapping[str, Any]) -> int | Tensor:
    """Return the index of the largest change of acceleration, int64 (N, 1) if it may differ between worlds."""
    levels = int(params["num_acceleration_levels"])
    largest = _number(params, "max_acceleration" if levels > 1 else "min_acceleration")
    return levels * (largest > 0)


def _nearest_level(value: Tensor, low: Number, high: Number, levels: int) -> Tensor:
    """Return the index of the choice nearest to a value; 0 stands for 0, and the levels follow evenly from low to high."""
    if levels == 0:
        return torch.zeros_like(value, dtype=torch.int64)
    lowest, step = (x.float() if isinstance(x, Tensor) else x for x in (low, (high - low) / max(levels - 1, 1)))
    level = ((value - lowest) / step).nan_to_num(0.0).round().clamp(0, levels - 1)  # a step is 0 if all levels are the same
    return torch.where((lowest + level * step - value).abs() < value.abs(), level.long() + 1, 0)


OPPONENTS = {"chase": ("tagger", chase), "flee": ("runner", flee)}
"""Names of scripted policies, with the role and the function of each."""
