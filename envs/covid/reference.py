"""COVID-19 and the economy in slow, readable NumPy: the rules of README.md in this folder, one world, one day at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel: unemployment is the sum over 600 days, and
numbers are float64 within a day. State is rounded to float32 between days. The state of the env has the stringency of 30 days and
the sums over 600; ``set_state()`` says what stands for the days between.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_vecenv.envs.covid.spec import calibration, history

STATES, LEVELS, WINDOW, RING = 51, 10, 600, 30
DELAY = 29
"""Days from a stringency to its rate of infection."""

PERSONS = ("susceptible", "infected", "recovered", "deaths", "vaccinated", "unemployed")
MONEY = ("subsidy", "production")
"""Fields of the env's state that hold one float32 for each state of the nation."""


def day(date: str) -> int:
    """Return the days from the first day of the history, 2020-01-01, to a date."""
    return datetime.date.fromisoformat(date).toordinal() - datetime.date(2020, 1, 1).toordinal()


def rounded(values: Any) -> np.ndarray:
    """Return numbers as float32, as state is stored."""
    return np.asarray(values, np.float32)


class CovidReference:
    """One world: 51 governors, then the planner.

    Args:
        params: resolved parameters of WarpCovid-v0, by name.

    Attributes:
        t: days since the start.
        susceptible, infected, recovered, deaths, vaccinated, unemployed: float32 (51,), persons.
        subsidy, production: float32 (51,), USD of the day.
        stringency: int (601 + t, 51), levels of the days -600 to t.
        closed_until: int (51,), day from which a governor may choose again.
        subsidy_level: level of the subsidy.
        index: float64 (2, 52), health and economic index of the last day, of each agent.
        index_sums: float64 (2, 52), their sums since the start.
        remainder: float64 (5, 51), sums of decayed changes of stringency beyond those of ``stringency``.
    """

    tolerance = 3e-4  # rewards are made from differences of large float32 numbers

    susceptible: np.ndarray
    infected: np.ndarray
    recovered: np.ndarray
    vaccinated: np.ndarray
    unemployed: np.ndarray
    stringency: np.ndarray

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params, self.constants = params, calibration()
        self.start = day(params["start_date"])
        self.first_vaccines = day(params["vaccine_start"]) - self.start
        self.population = np.array(self.constants["state_population"], np.float64)
        self.doses = np.floor(params["vaccine_interval"] * self.population / 1e6 * params["daily_vaccines_per_million"])
        ages = np.arange(WINDOW)[::-1]  # of the changes in the window, the oldest first
        self.decay = np.exp(-ages[:, None] / np.array(self.constants["unemployment_lambda"]))
        self.set_normal_year()
        self.reset()

    def set_normal_year(self) -> None:
        """Set what a worker and a state produce without a pandemic, and the weights of health."""
        constants, share = self.constants, self.params["working_age_share"]
        idle = (np.log(2) + np.array(constants["unemployment_bias"])) * self.population / 100
        workers = np.trunc(constants["us_population"] * share - idle.sum())
        per_person = np.float32(workers / constants["us_population"])
        self.per_worker = np.float32(np.float32(constants["gdp_per_capita"] / per_person) / np.float32(365))
        self.working_age = np.float32(share)
        in_work = np.maximum(0, self.population * np.float64(self.working_age) - idle)
        self.most = rounded(in_work) * self.per_worker
        year = (np.float32(365) * self.most).astype(np.float64)
        self.norms = np.append(year, year.sum())
        alpha = np.append(constants["alpha_health_state"], constants["alpha_health_planner"])
        priority = np.append(np.full(STATES, self.params["health_priority_governor"]), self.params["health_priority_planner"])
        odds = priority * alpha / (1 - alpha)
        self.health_weights = odds / (1 + odds)

    def reset(self) -> None:
        """Start an episode on the recorded start date."""
        for name in ("susceptible", "infected", "recovered", "vaccinated", "unemployed"):
            setattr(self, name, rounded(history()[name][self.start]))
        self.deaths = np.float32(self.constants["sir_mortality"]) * self.recovered
        self.subsidy, self.production = np.zeros(STATES, np.float32), np.zeros(STATES, np.float32)
        open_days = np.ones((WINDOW, STATES), int)
        self.stringency = np.concatenate([open_days, history()["policy"][: self.start + 1]])[-WINDOW - 1 :]
        self.closed_until = np.zeros(STATES, int)
        self.t = self.subsidy_level = 0
        self.index_sums = np.zeros((2, STATES + 1))
        self.remainder = np.zeros((self.decay.shape[1], STATES))

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec and ``t``.

        The days of the episode before the last 30 are not part of the state. Their stringency is taken to be the oldest that is
        known; the difference of the filters, in which the real days count, decays as ``remainder``.
        """
        self.reset()
        for name in (*PERSONS, *MONEY):
            setattr(self, name, np.array(state[name], np.float32))
        self.t, self.subsidy_level = int(state["t"]), int(state["subsidy_level"])
        self.closed_until = np.array(state["closed_until"], int)
        self.index_sums = np.array([state["health_index"], state["economic_index"]], np.float64)
        days = np.arange(max(1, self.t - RING + 1), self.t + 1)
        known = np.array(state["levels"], int)[days % RING]
        unknown = np.repeat(known[:1], max(0, self.t - RING), axis=0)
        self.stringency = np.concatenate([self.stringency, unknown, known])
        self.remainder = np.array(state["filters"], np.float64) - self.filters()

    def get_state(self) -> dict[str, Any]:
        """Return the state under the names of the spec, without persons, which observations have as shares of the population.

        A few persons may be what is left of a difference of large float32 numbers.
        """
        names = (*MONEY, "closed_until", "subsidy_level", "t")
        levels = np.zeros((RING, STATES), int)
        for day in range(self.t - RING + 1, self.t + 1):
            levels[day % RING] = self.stringency[WINDOW + max(0, day)]  # that of day 0 in place of days before it
        health, economic = self.index_sums
        return {**{name: getattr(self, name) for name in names}, "levels": levels, "filters": self.filters(),
                "health_index": health, "economic_index": economic}  # fmt: skip

    def level(self, days_ago: int) -> np.ndarray:
        """Return the stringency of each state some days ago."""
        levels: np.ndarray = self.stringency[-1 - days_ago]
        return levels

    def step(self, actions: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], np.ndarray, bool, bool]:
        """Live through one day.

        Args:
            actions: of ``governor``, int (51,): 0 keeps the stringency of a state, k sets it to k; of ``planner``, int (1,): the
                level of the subsidy.

        Returns:
            obs: as ``observe()``.
            reward: float64 (52,), the planner's last.
            terminated: False.
            truncated: the time limit is reached.
        """
        choices = np.asarray(actions["governor"])
        self.t += 1
        self.stringency = np.concatenate([self.stringency, [np.where(choices > 0, choices, self.level(0))]])
        due = self.t == self.closed_until + 1
        self.closed_until = self.closed_until + due * np.where(choices > 0, self.params["action_cooldown"], 1)
        if (self.t - 1) % self.params["subsidy_interval"] == 0:
            self.subsidy_level = int(actions["planner"][0])
        before = self.deaths
        self.spread()
        self.remainder = self.remainder * self.decay[-2][:, None]  # of one day
        self.produce(self.lay_off())
        rewards = self.rewards(before)
        self.index_sums = self.index_sums + self.index
        return self.observe(), rewards, False, self.t >= self.params["episode_length"]

    def spread(self) -> None:
        """Deliver vaccines, then infect, recover and die."""
        constants = self.constants
        s, i, r, v = (x.astype(np.float64) for x in (self.susceptible, self.infected, self.recovered, self.vaccinated))
        delivered = self.t >= self.first_vaccines and self.t % self.params["vaccine_interval"] == 0
        doses = self.doses if delivered else np.zeros(STATES)
        beta = rounded(constants["beta_intercept"]) + rounded(constants["beta_slope"]) * rounded(self.level(DELAY))
        vaccinated, unprotected = np.minimum(doses, s), 1 - np.minimum(1, doses / (s + 1e-10))
        ds = -beta * (s / self.population * i) * unprotected - vaccinated
        dr = constants["sir_gamma"] * i + vaccinated
        after = (s + ds, i - ds - dr, r + dr, v + vaccinated)
        self.susceptible, self.infected, self.recovered, self.vaccinated = (rounded(np.maximum(0, x)) for x in after)
        self.deaths = np.float32(constants["sir_mortality"]) * (self.recovered - self.vaccinated)

    def filters(self) -> np.ndarray:
        """Return changes of stringency in the last 600 days, summed with each decay, float64 (5, 51)."""
        changes = np.diff(self.stringency[-WINDOW - 1 :], axis=0)
        filters: np.ndarray = np.einsum("dk,di->ki", self.decay, changes) + self.remainder
        return filters

    def lay_off(self) -> np.ndarray:
        """Set the unemployed, from 600 days of changes of stringency; returns their number without rounding."""
        response = (np.array(self.constants["unemployment_weight"]).T * self.filters()).sum(axis=0)
        softplus = np.where(response > 20, response, np.log1p(np.exp(np.minimum(response, 20))))
        unemployed: np.ndarray = (softplus + np.array(self.constants["unemployment_bias"])) * self.population / 100
        self.unemployed = rounded(unemployed)
        return unemployed

    def produce(self, unemployed: np.ndarray) -> None:
        """Set subsidies and production of the day."""
        p, share = self.params, np.float64(self.working_age)
        full = self.population * p["max_annual_subsidy_per_person"] / 365
        self.subsidy = rounded(self.subsidy_level / p["num_subsidy_levels"] * full)
        absent = (p["sick_rate"] * self.infected.astype(np.float64) + self.deaths) * share + unemployed
        work = np.maximum(0, self.population * share - absent)
        self.production = rounded(work * self.per_worker) + self.subsidy

    def rewards(self, deaths_before: np.ndarray) -> np.ndarray:
        """Set the indices of the day and return the rewards, float64 (52,)."""
        died = self.deaths.astype(np.float64) - deaths_before
        income, paid = self.production.astype(np.float64), self.subsidy.sum(dtype=np.float64)
        died, income = np.append(died, died.sum()), np.append(income, income.sum() - (1 + self.params["risk_free_rate"]) * paid)
        health = self.normalized("health", -died * self.constants["value_of_life"] / self.norms)
        economy = self.normalized("economic", self.utility(income / self.norms))
        self.index = np.stack([health, economy])
        reward: np.ndarray = self.health_weights * health + (1 - self.health_weights) * economy
        return reward / float(self.params["reward_normalization_factor"])

    def utility(self, share: np.ndarray) -> np.ndarray:
        """Constant relative risk aversion for a day's income, a share of a normal year's."""
        power = 1 - float(self.params["eta"])
        income: np.ndarray = np.clip(365 * share, 0.1, 3)
        return (1 + (income**power - 1) / power) / 365

    def normalized(self, index: str, values: np.ndarray) -> np.ndarray:
        """Return an index of all agents, 0 and 1 at the calibrated bounds."""
        bounds = self.constants["index_bounds"]
        low, high = (np.append(bounds[f"{end}_agent_{index}"], bounds[f"{end}_planner_{index}"]) for end in ("min", "max"))
        index_of_day: np.ndarray = (values - low) / (high - low + 1e-10)
        return index_of_day

    def masks(self) -> tuple[np.ndarray, bool]:
        """Return which governors may change their stringency, bool (51,), and whether the planner may choose a subsidy."""
        return self.t >= self.closed_until, self.t % self.params["subsidy_interval"] == 0

    def known(self) -> list[float]:
        """Return what all agents observe: level of the subsidy, time to the next one, time to the next vaccines, time."""
        p, between = self.params, self.params["vaccine_interval"]
        first, tomorrow = -(-self.first_vaccines // between) * between, self.t + 1
        days = min(1, (first - tomorrow) / between) if tomorrow <= first else between - tomorrow % between
        wait = (p["subsidy_interval"] - self.t % p["subsidy_interval"]) / p["subsidy_interval"]
        return [self.subsidy_level / p["num_subsidy_levels"], wait, days / between, self.t / p["episode_length"]]

    def observe(self) -> dict[str, np.ndarray]:
        """Return the observations of ``governor``, float32 (51, 64), and of ``planner``, float32 (1, 463)."""
        persons = (self.susceptible, self.infected, self.recovered, self.deaths, self.vaccinated, self.unemployed)
        shares = np.stack(persons, axis=1) / self.population[:, None]
        level, lagged, production = self.level(0) / LEVELS, self.level(DELAY - 1) / LEVELS, self.production / self.most
        known, governors = self.known(), np.eye(STATES)
        rows = [[level[i], *known, *governors[i], production[i], *shares[i], lagged[i]] for i in range(STATES)]
        planner = np.concatenate([level, known, production, shares.reshape(-1), lagged])
        return {"governor": np.array(rows, np.float32), "planner": planner[None].astype(np.float32)}
