"""Recorded trajectories of COVID-19, and the tolerances of the comparison with them."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import gymnasium
import numpy as np

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.covid.reference import CovidReference
from gpu_vecenv.envs.covid.spec import SPEC, calibrated

POPULATION = calibrated("state_population")
REWARD = 3e-4  # absolute tolerance of rewards

RECORDED = {
    **{name: name for name in ("susceptible", "infected", "recovered", "deaths", "vaccinated", "unemployed", "subsidy")},
    "production": "postsubsidy_productivity",
}
"""Name in the recordings of each state field that they hold."""

PARAMS = {
    "episode_length": "episode_length",
    "start_date": "start",
    "action_cooldown": "cooldown",
    "subsidy_interval": "subsidy_interval",
    "num_subsidy_levels": "n_subsidy",
    "max_annual_subsidy_per_person": "max_subsidy",
    "daily_vaccines_per_million": "vax_per_million",
    "vaccine_interval": "vax_interval",
    "vaccine_start": "vax_start",
    "health_priority_governor": "h_agents",
    "health_priority_planner": "h_planner",
    "eta": "eta",
    "sick_rate": "sick",
    "working_age_share": "age_frac",
    "risk_free_rate": "rate",
}
"""Name in the recordings of each parameter."""


def make(num_envs, device="cpu", **params):
    """Env with NumPy arrays that is not reset by itself."""
    return gymnasium.make_vec(
        "WarpCovid-v0", num_envs=num_envs, device=device, array="numpy", autoreset_mode="disabled", **params
    )


def assert_close(name, values, expected):
    """Assert that persons or USD of states agree: rtol 1e-4, atol 1e-5 of the population."""
    error = np.abs(np.asarray(values, np.float64) - expected)
    assert (error <= 1e-4 * np.abs(expected) + 1e-5 * POPULATION).all(), (name, error.max())


@dataclass
class Recording:
    """One recorded episode of T days. States other than stringency are stored on some days only."""

    path: Path

    @cached_property
    def data(self):
        with np.load(self.path) as archive:
            return dict(archive)

    @cached_property
    def params(self):
        config = json.loads(str(self.data["config"]))
        return {name: config[recorded] for name, recorded in PARAMS.items()}

    @property
    def steps(self):
        return len(self.data["actions_states"])

    @cached_property
    def days(self):
        """Days whose state is stored; all days in whole recordings."""
        return self.data.get("days", np.arange(self.steps + 1)).astype(int)

    def state(self, day):
        """Recorded fields of a stored day, (51,) each, by the names of the env."""
        at = int(np.flatnonzero(self.days == day)[0])
        return {name: self.data[f"state_{recorded}"][at] for name, recorded in RECORDED.items()}

    def action(self, step, worlds):
        """Action of a step for some worlds that do the same."""
        return {
            "governor": np.tile(self.data["actions_states"][step].astype(np.int64), (worlds, 1)),
            "planner": np.full((worlds, 1), self.data["actions_planner"][step], np.int64),
        }

    @cached_property
    def closed_until(self):
        """Cooldown after each step, int (T + 1, 51), by its rule alone."""
        until = np.zeros((self.steps + 1, 51), int)
        for t in range(1, self.steps + 1):
            acted = self.data["actions_states"][t - 1] != 0
            wait = np.where(acted, self.params["action_cooldown"], 1)
            until[t] = until[t - 1] + np.where(until[t - 1] == t - 1, wait, 0)
        return until

    @cached_property
    def stringency(self):
        """Stringency on the days -600 to T, int (601 + T, 51)."""
        before = CovidReference(SPEC.resolve(self.params)).stringency
        return np.concatenate([before[:-1], self.data["state_stringency"]]).astype(int)

    def start(self, days):
        """State of one world for each of these days, for ``set_state``; the filters are sums over 600 days."""
        fields = [self.state(day) for day in days]
        state = {name: np.stack([field[name] for field in fields]) for name in RECORDED}
        decay = np.exp(-np.arange(600)[::-1] / calibrated("unemployment_lambda")[:, None])
        filters = [decay @ np.diff(self.stringency[day : day + 601], axis=0) for day in days]
        levels = np.zeros((len(days), 30, 51), np.uint8)
        for world, day in enumerate(days):
            for past in range(max(0, day - 29), day + 1):
                levels[world, past % 30] = self.data["state_stringency"][past]
        subsidy = np.round(self.data["obs_scalars"][days, 2] * self.params["num_subsidy_levels"])
        return {
            **state,
            "filters": np.stack(filters).astype(np.float32),
            "levels": levels,
            "closed_until": self.closed_until[days].astype(np.int32),
            "subsidy_level": subsidy.astype(np.int32),
            "t": np.asarray(days, np.int32),
        }
