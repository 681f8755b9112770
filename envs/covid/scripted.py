"""The five published scenarios of 405 days from 2020-03-22: actions of four, and the welfare of the recorded days themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.envs.covid.reference import CovidReference
from gpu_vecenv.envs.covid.spec import SPEC, STATES, calibration, history

PARAMS: dict[str, Any] = {"episode_length": 405, "health_priority_governor": 1.0, "health_priority_planner": 1.0}
"""Parameters of the scenarios; others are defaults."""

PUBLISHED = {
    "open": 183.8,
    "closed with full subsidies": 317.8,
    "closed for 180 days": 334.2,
    "recorded policies": 349.1,
    "recorded days": 347.6,
}
"""Welfare of the planner, the sum of its rewards, that the authors publish for each scenario. They write it without a unit."""

SCRIPTS = {"open": (1, 1, 0), "closed with full subsidies": (10, 10, 20), "closed for 180 days": (10, 1, 0)}
"""Scenarios with one stringency for all states: that of the first 180 days, that of later ones, and the level of the subsidy."""


def recorded_subsidies(days: int) -> np.ndarray:
    """Return the level of the subsidy on the days 1 to ``days`` that is nearest to recorded direct payments, int64 (days,).

    A payment is spread evenly over one interval between decisions, from the day after it on.
    """
    params = SPEC.resolve(PARAMS)
    interval, levels = params["subsidy_interval"], params["num_subsidy_levels"]
    unit = calibration()["us_population"] * params["max_annual_subsidy_per_person"] / levels * interval / 365
    start, level = CovidReference(params).start, np.zeros(days + interval, np.int64)
    for past in range(days):
        level[past : past + interval] += int(np.round(history()["subsidy"][start + past] / unit))
    return level[:days]


def actions(scenario: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the actions of a simulated scenario.

    Args:
        scenario: a name of ``SCRIPTS``, or "recorded policies".

    Returns:
        levels: stringency of each state, int64 (405, 51).
        subsidies: level of the subsidy, int64 (405,). Under "recorded policies" it changes on days without a decision, so that
            ``set_state`` must set ``subsidy_level`` before each step.

    Raises:
        KeyError: another scenario.
    """
    days = PARAMS["episode_length"]
    if scenario == "recorded policies":
        start = CovidReference(SPEC.resolve(PARAMS)).start
        return history()["policy"][start : start + days].astype(np.int64), recorded_subsidies(days)
    first, then, subsidy = SCRIPTS[scenario]
    levels = np.repeat(np.where(np.arange(days) < 180, first, then)[:, None], STATES, axis=1)
    return levels, np.full(days, subsidy)


def welfare_of_recorded_days() -> float:
    """Return the planner's welfare with recorded persons and policies in place of the model's; days without data are left out."""
    world = CovidReference(SPEC.resolve(PARAMS))
    subsidies, welfare = recorded_subsidies(PARAMS["episode_length"]), 0.0
    for t in range(1, PARAMS["episode_length"] + 1):
        before = world.deaths
        for name in ("susceptible", "infected", "recovered", "deaths", "vaccinated"):
            setattr(world, name, np.maximum(0, history()[name][world.start + t]))
        world.unemployed = history()["unemployed"][world.start + t]
        world.subsidy_level = int(subsidies[t - 1])
        world.produce(np.asarray(world.unemployed, np.float64))
        reward = world.rewards(before)[STATES]
        welfare += 0.0 if np.isnan(reward) else float(reward)
    return welfare
