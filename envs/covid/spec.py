"""Spec of COVID-19 and the economy: 51 governors and a federal planner. Calibration and history are read from ``data``."""

from __future__ import annotations

import datetime
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, Metric, Scratch, Table
from gpu_vecenv.spec.params import Param, Params
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.spec.validation import abbreviated

NAME = "WarpCovid-v0"
DATA = Path(__file__).parent / "data"

STATES, LEVELS, RING, FILTERS, WINDOW, DELAY = 51, 10, 30, 5, 600, 29
"""Sizes, as in covid.cu: states; stringencies; days of stringency stored; filters of unemployment; days that a filter counts;
days from a stringency to its rate of infection."""

STAGED, SUMS, PARTS = 10, 7, 8
"""Sizes, as in covid.cu: quantities of a state that are staged; quantities summed over the states; parts of a sum."""

DAY_ZERO = datetime.date(2020, 1, 1)
FIRST_START, LAST_START = datetime.date(2020, 2, 21), datetime.date(2021, 4, 30)
"""First day of the history, and first and last day of complete records."""


@functools.cache
def calibration() -> dict[str, Any]:
    """Calibrated constants of the model, by name; lists by state are in the order of ``state_names``."""
    constants: dict[str, Any] = json.loads((DATA / "calibration.json").read_text(encoding="utf-8"))
    return constants


@functools.cache
def history() -> dict[str, np.ndarray]:
    """Recorded days from 2020-01-01 on: (518, 51) for each quantity of a state, (518,) for direct payments (``subsidy``)."""
    with np.load(DATA / "history.npz") as archive:
        return dict(archive)


def calibrated(name: str) -> np.ndarray:
    """Return a calibrated number, or those of all states, as float64."""
    return np.asarray(calibration()[name], np.float64)


def days_since(params: Params, name: str) -> int:
    """Return the days from 2020-01-01 to the date in a parameter.

    Raises:
        ParameterError: a value that is no date.
    """
    try:
        return (datetime.date.fromisoformat(params[name]) - DAY_ZERO).days
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{NAME}: {name} must be a date such as '2020-03-22', got {abbreviated(params[name])}."
        ) from error


def check(params: Params) -> None:
    """Raise ParameterError for dates without data, for text that is no date, and for an eta near 1."""
    days_since(params, "vaccine_start")
    if not (FIRST_START - DAY_ZERO).days <= days_since(params, "start_date") <= (LAST_START - DAY_ZERO).days:
        raise ParameterError(
            f"{NAME}: start_date must lie from {FIRST_START} to {LAST_START}, the days with complete records, "
            f"got {params['start_date']}."
        )
    if abs(params["eta"] - 1) < 0.01:
        raise ParameterError(f"{NAME}: eta must not lie within 0.01 of 1, where utility is a difference of equal numbers.")


def income(params: Params) -> tuple[np.float32, np.ndarray, np.ndarray]:
    """Return the production of a worker in a day, and of each state without a pandemic in a day and in a year, float32, USD."""
    constants, population, share = calibration(), calibrated("state_population"), params["working_age_share"]
    unemployed = (np.log(2) + calibrated("unemployment_bias")) * population / 100
    workers = np.float32(np.trunc(constants["us_population"] * share - unemployed.sum()) / constants["us_population"])
    per_worker = np.float32(np.float32(constants["gdp_per_capita"] / workers) / np.float32(365))
    in_work = np.maximum(0, population * float(np.float32(share)) - unemployed).astype(np.float32)
    return per_worker, in_work * per_worker, np.float32(365) * (in_work * per_worker)


def health_weight(alpha: np.ndarray, priority: float) -> np.ndarray:
    """Return the weight of the health index in a reward, from the calibrated weight and the priority that scales its odds."""
    odds = priority * alpha / (1 - alpha)
    weight: np.ndarray = odds / (1 + odds)
    return weight


def index_bounds(who: str) -> np.ndarray:
    """Return the lowest index and 1 / its range, of health, then of the economy: (4,) or (4, states)."""
    bounds, rows = calibration()["index_bounds"], []
    for index in ("health", "economic"):
        low, high = (np.asarray(bounds[f"{side}_{who}_{index}"], np.float64) for side in ("min", "max"))
        rows += [low, 1 / (high - low + 1e-10)]
    return np.stack(rows)


def first_day(params: Params) -> np.ndarray:
    """Return recorded persons of the start date, (5, states): susceptible, infected, recovered, vaccinated, unemployed."""
    names = "susceptible", "infected", "recovered", "vaccinated", "unemployed"
    return np.stack([history()[name][days_since(params, "start_date")] for name in names])


def recorded_levels(params: Params) -> np.ndarray:
    """Return recorded stringencies of the 30 days up to the start date, (30, states), the oldest first."""
    start = days_since(params, "start_date")
    return history()["policy"][start - DELAY : start + 1]


def recorded_changes(params: Params) -> np.ndarray:
    """Return daily changes of stringency in the 600 days up to the start date, (600, states); states are open before 2020."""
    open_days = np.ones((WINDOW, STATES), int)
    levels = np.concatenate([open_days, history()["policy"][: days_since(params, "start_date") + 1]])
    return np.diff(levels[-WINDOW - 1 :], axis=0)


def first_filters(params: Params) -> np.ndarray:
    """Return the filters of unemployment on the start date, (5, states)."""
    age = np.arange(WINDOW - 1, -1, -1)
    filters: np.ndarray = np.exp(-age / calibrated("unemployment_lambda")[:, None]) @ recorded_changes(params)
    return filters


def vaccine_days(params: Params) -> np.ndarray:
    """Return the days of the episode from which vaccines exist, and on which the first are delivered."""
    start, interval = days_since(params, "vaccine_start") - days_since(params, "start_date"), params["vaccine_interval"]
    return np.array([start, -(-start // interval) * interval])


def full_subsidy(params: Params) -> np.ndarray:
    """Return the subsidy of each state in a day at the highest level, USD."""
    most = float(params["max_annual_subsidy_per_person"])
    return calibrated("state_population") * most / 365


def doses(params: Params) -> np.ndarray:
    """Return the persons that a delivery vaccinates at most in each state."""
    rate, interval = float(params["daily_vaccines_per_million"]), int(params["vaccine_interval"])
    doses: np.ndarray = np.floor(interval * calibrated("state_population") / 1e6 * rate)
    return doses


ANY, SHARE = (-np.inf, np.inf), (0.0, 1.0)
KNOWN = [SHARE] * 4
"""Bounds of what all agents observe: level of the subsidy, time to the next one and to the next vaccines, time."""


def observation_space(parts: list[tuple[float, float]]) -> Box:
    """Return the float32 space of features with these bounds."""
    low, high = np.array(parts, np.float32).T
    return Box(low, high, dtype=np.float32)


def governor_space(params: Params) -> Box:
    """Float32 (64,): stringency, what all agents observe, one-hot index, production, six shares of the population, lagged one."""
    return observation_space([SHARE, *KNOWN, *[SHARE] * STATES, *[ANY] * 7, SHARE])


def planner_space(params: Params) -> Box:
    """Float32 (463,): stringencies, what all agents observe, productions, six shares state by state, lagged levels."""
    return observation_space([*[SHARE] * STATES, *KNOWN, *[ANY] * 7 * STATES, *[SHARE] * STATES])


SPEC = EnvSpec(
    name=NAME,
    kernel=Path(__file__).with_name("covid.cu"),
    roles=(
        Role("governor", STATES, governor_space, lambda p: Discrete(LEVELS + 1), masked=(0,)),
        Role("planner", 1, planner_space, lambda p: Discrete(p["num_subsidy_levels"] + 1), masked=(0,)),
    ),
    params=(
        Param("episode_length", 540, "int32", "time limit", "days", low=1, high=WINDOW),
        Param("start_date", "2020-03-22", None, f"first day, from {FIRST_START} to {LAST_START}", "ISO date"),
        Param("action_cooldown", 28, "int32", "days for which a new stringency should stay", "days", low=1, high=10_000),
        Param("subsidy_interval", 90, "int32", "days from one decision of the planner to the next", "days", low=1, high=10_000),
        Param("num_subsidy_levels", 20, "int32", "levels of the subsidy, in addition to 0", low=1, high=1000),
        Param("max_annual_subsidy_per_person", 20_000.0, "float64", "subsidy of the highest level", "USD/year", low=0),
        Param("daily_vaccines_per_million", 3000.0, "float64", "doses for a million inhabitants", "1/day", low=0),
        Param("vaccine_interval", 1, "int32", "days from one delivery of vaccines to the next", "days", low=1, high=10_000),
        Param("vaccine_start", "2021-01-12", None, "day from which vaccines are delivered", "ISO date"),
        Param("health_priority_governor", 0.3, "float64", "factor on the odds of a governor's weight of health", low=0),
        Param("health_priority_planner", 0.45, "float64", "factor on the odds of the planner's weight of health", low=0),
        Param("eta", 2.0, "float32", "risk aversion of the utility of income; not within 0.01 of 1", low=0, high=19.999),
        Param("sick_rate", 0.1, "float32", "share of the infected who cannot work", low=0, high=1),
        Param("working_age_share", 0.6, "float64", "share of the population that is of working age", low=0.05, high=1),
        Param("risk_free_rate", 0.03, "float32", "interest that the planner pays on subsidies", low=0),
        Param("reward_normalization_factor", 1.0, "float32", "divides all rewards", low=1e-6),
    ),
    state=(
        Field("susceptible", "float32", (STATES,), "persons who can be infected", "persons"),
        Field("infected", "float32", (STATES,), "infected persons", "persons"),
        Field("recovered", "float32", (STATES,), "recovered, dead or vaccinated persons", "persons"),
        Field("deaths", "float32", (STATES,), "dead persons", "persons"),
        Field("vaccinated", "float32", (STATES,), "vaccinated persons", "persons"),
        Field("unemployed", "float32", (STATES,), "persons without work", "persons"),
        Field("subsidy", "float32", (STATES,), "subsidy of the day", "USD"),
        Field("production", "float32", (STATES,), "production of the day and its subsidy", "USD"),
        Field("filters", "float32", (FILTERS, STATES), "changes of stringency, which decay at five rates"),
        Field("levels", "uint8", (RING, STATES), "stringency of the last 30 days; that of day t is entry t mod 30",
              low=0, high=LEVELS),
        Field("closed_until", "int32", (STATES,), "day from which a new stringency may be chosen", "days", low=0,
              high=2**30),
        Field("subsidy_level", "int32", (), "level of the subsidy", low=0, high=lambda p: p["num_subsidy_levels"]),
        Field("health_index", "float32", ("num_agents",), "sum of an agent's health index since the start, the planner's last"),
        Field("economic_index", "float32", ("num_agents",), "the same of the economic index"),
    ),
    constants=(
        Constant("mortality", lambda p: calibration()["sir_mortality"], "share of the recovered who die"),
        Constant("recovery", lambda p: calibration()["sir_gamma"], "share of the infected who recover", "1/day"),
        Constant("per_level", lambda p: 1 / LEVELS, "scale of stringency"),
        Constant("percent_of_us", lambda p: 100 / calibration()["us_population"], "scale of persons in all states", "%/person"),
        Constant("reward_scale", lambda p: 1 / p["reward_normalization_factor"], "factor on rewards"),
        Constant("utility_of_one", lambda p: (1 - 1 / (1 - p["eta"])) / 365, "utility less that of the power"),
        Constant("per_power", lambda p: 1 / (1 - p["eta"]) / 365, "utility of the power of an income"),
        Constant("working_age", lambda p: p["working_age_share"], "share of the population"),
        Constant("per_worker", lambda p: float(income(p)[0]), "production of a worker", "USD/day"),
        Constant("per_planner_norm", lambda p: 1 / income(p)[2].sum(dtype=np.float64), "of all states", "year/USD"),
        Constant("planner_cost_of_death",
                 lambda p: calibration()["value_of_life"] / income(p)[2].sum(dtype=np.float64), "in all production", "year"),
        Constant("planner_health_weight",
                 lambda p: float(health_weight(calibrated("alpha_health_planner"), p["health_priority_planner"])), "weight"),
    ),
    tables=(
        Table("per_person", lambda p: 1 / calibrated("state_population"), "scale of persons", "1/person"),
        Table("percent", lambda p: calibrated("state_population") / 100, "a hundredth of the inhabitants", "persons"),
        Table("working_age_population", lambda p: calibrated("state_population") * float(np.float32(p["working_age_share"])),
              "inhabitants of working age", "persons"),
        Table("beta", lambda p: np.stack([calibrated("beta_intercept"), calibrated("beta_slope")]),
              "rate of infection at stringency 0, and its change with a level", "1/day"),
        Table("bias", lambda p: calibrated("unemployment_bias"), "unemployment without changes of stringency", "%"),
        Table("weight", lambda p: calibrated("unemployment_weight").T, "weights of the filters"),
        Table("decay", lambda p: np.exp(-np.array([[1], [WINDOW]]) / calibrated("unemployment_lambda")),
              "decay of the filters in a day, and in their window"),
        Table("first_filters", first_filters, "filters at the start"),
        Table("first", first_day, "persons at the start: susceptible, infected, recovered, vaccinated, unemployed", "persons"),
        Table("full_subsidy", full_subsidy, "subsidy at the highest level", "USD/day"),
        Table("doses", doses, "doses of a delivery", "persons"),
        Table("per_most", lambda p: 1 / income(p)[1].astype(np.float64), "of production without a pandemic", "day/USD"),
        Table("per_norm", lambda p: 1 / income(p)[2].astype(np.float64), "of production without a pandemic", "year/USD"),
        Table("cost_of_death", lambda p: calibration()["value_of_life"] / income(p)[2].astype(np.float64),
              "in production of a state", "year"),
        Table("governor_health_weight",
              lambda p: health_weight(calibrated("alpha_health_state"), p["health_priority_governor"]), "weight"),
        Table("bounds", lambda p: index_bounds("agent"), "lowest health index, 1 / range, lowest economic index, 1 / range"),
        Table("planner_bounds", lambda p: index_bounds("planner"), "the same of the planner"),
        Table("recorded", recorded_levels, "stringency of the 30 days up to the start", dtype="uint8"),
        Table("leaving", recorded_changes, "changes of stringency that leave the filters, by day", dtype="int8"),
        Table("vaccine_days", vaccine_days, "first day with vaccines, first delivery", "days", dtype="int32"),
    ),
    scratch=(
        Scratch("shown", "float32", (STAGED, STATES), "observed quantities"),
        Scratch("summed", "float32", (SUMS, STATES), "quantities that are summed"),
        Scratch("part", "float32", (SUMS, PARTS), "parts of sums"),
        Scratch("total", "float32", (SUMS,), "sums"),
    ),
    check=check,
    reward_role="planner",
    metrics=(
        Metric("deaths", "last", "deaths of all states", "thousand persons"),
        Metric("vaccinated", "last", "vaccinated share of the population", "%"),
        Metric("unemployed", "mean", "unemployed share of the population", "%"),
        Metric("stringency", "mean", "mean stringency of the states"),
        Metric("subsidies", "sum", "subsidies to all states", "1e12 USD"),
        Metric("production", "sum", "production of all states, with subsidies", "1e12 USD"),
        Metric("health", "sum", "health index of the planner"),
        Metric("economy", "sum", "economic index of the planner"),
    ),
    limit_is_rule=True,
    rewards={
        "health": "the health index, weighted by the agent's weight of health",
        "economy": "the economic index, weighted by 1 minus that weight",
    },
)  # fmt: skip
