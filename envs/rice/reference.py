"""RICE-N in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel, and computes in float64; states, rewards and
observations are rounded to float32 where the rules store them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

N = 27
PERIODS = 20
F = np.float32

TAKEN = ("capital", "labor", "technology", "intensity", "balance", "mitigation_cost", "production", "consumption", "utility",
         "temperature", "carbon")  # fmt: skip
"""Float32 fields of the env's state that have the same name here."""

RATES = ("savings", "mitigation", "export_limit", "minimum_mitigation", "tariffs")
PAIRS = ("promises", "requests")
"""Rates, which the env stores as levels; those of pairs with negotiation alone."""


class RiceReference:
    """One world of 27 regions.

    Args:
        params: resolved parameters of WarpRice-v0, by name.

    Attributes:
        t: steps taken in this episode.
        n: periods so far.
        temperature: float32 (2,), of atmosphere and lower ocean.
        carbon: float32 (3,), in atmosphere, upper and lower ocean.
        tariffs, promises, requests, decisions: float32 (27, 27), by own region and other region.
        goods: float32 (27, 27), imports of the last period by importer and exporter.
    """

    tolerance = 3e-4  # consumption may be the square of a sum that starts with the root of a difference of large float32 numbers

    def __init__(self, params: Mapping[str, Any]) -> None:
        calibration = json.loads(Path(__file__).with_name("data").joinpath("rice_params.json").read_text())
        self._world, self._alike, self._trade = calibration["world"], calibration["regional_shared"], calibration["env"]
        self._regional = {name: np.asarray(values, np.float64) for name, values in calibration["regional"].items()}
        self._levels = int(params["num_discrete_action_levels"])
        self._choices = self._levels + int(params["full_rates"])
        self._negotiates, self._old_debt_rule = bool(params["negotiation_on"]), bool(params["old_debt_rule"])
        self._parts = params["observe"] == "parts"
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        start = {name: self._regional[f"x{symbol}_0"].astype(F) for name, symbol in
                 (("capital", "K"), ("labor", "L"), ("technology", "A"), ("intensity", "sigma"))}  # fmt: skip
        self.capital, self.labor, self.technology, self.intensity = start.values()
        self.t = self.n = self.stage = 0
        self.temperature = np.array([self._alike["xT_AT_0"], self._alike["xT_LO_0"]], F)
        self.carbon = np.array([self._world[f"xM_{place}_0"] for place in ("AT", "UP", "LO")], F)
        zeros, matrix = np.zeros(N, F), np.zeros((N, N), F)
        self.balance, self.savings, self.mitigation, self.export_limit, self.minimum_mitigation = (zeros.copy() for _ in range(5))
        self.mitigation_cost, self.damages, self.abatement, self.production, self.output = (zeros.copy() for _ in range(5))
        self.investment, self.consumption, self.utility, self.welfare, self.reward = (zeros.copy() for _ in range(5))
        self.tariffs, self.promises, self.requests, self.decisions, self.goods = (matrix.copy() for _ in range(5))
        self.forcing = self.land = self.kept_capital = F(0)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec and ``t``."""
        self.t, self.n = int(state["t"]), int(state["period"])
        self.stage = self.t % 3 if self._negotiates else 0
        for name in TAKEN:
            setattr(self, name, np.array(state[name], F))
        self.output, self.damages = np.array(state["gross_output"], F), np.full(N, state["damages"], F)
        for name in (*RATES, *(PAIRS if self._negotiates else ())):
            rates = (np.array(state[name], float) / self._levels).astype(F)
            setattr(self, name, rates[0] if name in PAIRS else rates)
        if self._negotiates:
            self.decisions = np.array(state["decisions"][0], F)
        self.abatement, self.investment = self.mitigation_cost * self._abated(), self.savings * self.output
        self.reward = self.utility.copy() if self.stage == 0 else np.zeros(N, F)
        self._set_by_period()

    def get_state(self) -> dict[str, Any]:
        """Return the state under the names of the spec."""
        state = {name: getattr(self, name) for name in TAKEN}
        state |= {name: np.rint(getattr(self, name) * self._levels).astype(int) for name in RATES}
        state |= {"gross_output": self.output, "damages": self.damages[0], "period": self.n, "t": self.t}
        if self._negotiates:
            state |= {name: np.rint(getattr(self, name) * self._levels).astype(int)[None] for name in PAIRS}
            state |= {"decisions": self.decisions.astype(int)[None]}
        return state

    def step(self, actions: Any) -> tuple[Any, np.ndarray, bool, bool]:
        """Take a step.

        Args:
            actions: int (27, 57), or (27, 138) with negotiation, indices that exist; with ``observe="parts"`` as ``region`` of a
                dict.

        Returns:
            The observations, the reward of each region, float32 (27,), True if the episode has ended, and False.
        """
        actions = np.asarray(actions["region"] if self._parts else actions, np.int64)
        rates = (actions / self._levels).astype(F)
        self.t += 1
        self.stage = self.t % 3 if self._negotiates else 0
        self.reward = np.zeros(N, F)
        if self.stage == 1:
            self.promises, self.requests = rates[:, 57:111:2].copy(), rates[:, 58:111:2].copy()
        elif self.stage == 2:
            self.decisions = (actions[:, 111:138] == 1).astype(F) * (1 - np.eye(N, dtype=F))
            for i in range(N):
                agreed = [self.promises[i, j] for j in range(N) if self.decisions[j, i]]
                agreed += [self.requests[j, i] for j in range(N) if self.decisions[i, j]]
                self.minimum_mitigation[i] = max(agreed, default=F(0))
        else:
            self._period(rates)
        return self.observe(), self.reward.copy(), self.n == PERIODS, False

    def _period(self, rates: np.ndarray) -> None:
        self.n += 1
        self.savings, self.mitigation, self.export_limit = rates[:, 0], rates[:, 1], rates[:, 2]
        self._produce()
        exports, imports = self._trade_goods(bids=rates[:, 30:57])
        self._consume(exports, imports)
        self._set_by_period()
        self._warm()
        self._grow()
        self.tariffs = rates[:, 3:30].copy()

    def _set_by_period(self) -> None:
        """Set what the number of periods decides: forcing, emissions of land, kept capital, and the discount in welfare."""
        world, alike, n = self._world, self._alike, self.n
        first, last = world["xf_0"], world["xf_1"]
        self.forcing = F(first + min(last - first, (last - first) / world["xt_f"] * (n - 1)) if n else 0)
        self.land = F(world["xE_L0"] * (1 - world["xdelta_EL"]) ** (n - 1) / N if n else 0)
        self.kept_capital = F((1 - alike["xdelta_K"]) ** 5 if n else 0)
        self.welfare = (self.utility / (1 + alike["xrho"]) ** (5 * n)).astype(F)

    def _abated(self) -> np.ndarray:
        """Cost of the mitigation rate as a share of that of full mitigation, float32 (27,)."""
        shares = (np.arange(self._levels + 1) / self._levels) ** self._alike["xtheta_2"]  # of each level
        abated: np.ndarray = shares[np.rint(self.mitigation * self._levels).astype(int)].astype(F)
        return abated

    def _produce(self) -> None:
        """Rules 2 and 3: cost, damages, production, output, investment, and interest on the balance."""
        alike = self._alike
        price = alike["xp_b"] * (1 - alike["xdelta_pb"]) ** (self.n - 1)
        self.mitigation_cost = (price / (1000 * alike["xtheta_2"]) * self.intensity.astype(float)).astype(F)
        air = float(self.temperature[0])
        self.damages = np.full(N, 1 / (1 + alike["xa_1"] * air + alike["xa_2"] * air ** alike["xa_3"]), F)
        self.abatement = self.mitigation_cost * self._abated()
        capital, people = self.capital.astype(float), self.labor.astype(float) / 1000
        self.production = (self.technology * capital ** alike["xgamma"] * people ** (1 - alike["xgamma"])).astype(F)
        self.output = (self.damages.astype(float) * (1 - self.abatement.astype(float)) * self.production).astype(F)
        self.balance = self.balance * F(1 + self._trade["balance_interest_rate"])
        self.investment = self.savings * self.output

    def _trade_goods(self, bids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rules 4 and 5: goods by importer and exporter; returns exports and imports of each region."""
        start = self._regional["xK_0"]
        goods = bids * self.output[:, None]
        np.fill_diagonal(goods, 0)
        for i in range(N):
            total = goods[i].sum()
            if total > self.output[i]:
                goods[i] = goods[i] / total * self.output[i]
            debt = self.balance[i] / 10 * start[i] if self._old_debt_rule else 10 * self.balance[i] / start[i]
            goods[i] *= F(1 + np.clip(debt, -1, 0))
        for j in range(N):
            total = goods[:, j].sum()
            most = min(self.export_limit[j] * self.output[j], self.output[j] - self.investment[j])
            if total > most:
                goods[:, j] = goods[:, j] / total * most
        self.goods = goods
        return goods.sum(0), goods.sum(1)

    def _consume(self, exports: np.ndarray, imports: np.ndarray) -> None:
        """Rules 6 to 9: received goods, consumption, utility, balance."""
        alike, trade = self._alike, self._trade
        received = self.goods * (1 - self.tariffs)
        domestic = np.maximum(0, self.output - self.investment - exports)
        partner = trade["armington_for_pref_total"] / (N - 1)
        root = trade["armington_dom_pref"] * domestic**0.5 + partner * (received**0.5).sum(1)
        self.consumption = (root**2).astype(F)
        people = self.labor.astype(float) / 1000
        power = 1 - alike["xalpha"]
        offset = trade["utility_offset"]
        self.utility = (people * ((self.consumption / people + offset) ** power - 1) / power).astype(F)
        self.reward = self.utility
        self.balance = self.balance + 5 * (exports - imports)

    def _warm(self) -> None:
        """Rules 10 and 11, each from the state before the period."""
        world = self._world
        heat = world["xF_2x"] * np.log2(float(self.carbon[0]) / world["xM_AT_1750"]) + float(self.forcing)
        emissions = self.intensity.astype(float) * (1 - self.mitigation) * self.production + float(self.land)
        temperature = np.array(world["xPhi_T"]) @ self.temperature + np.array(world["xB_T"]) * heat
        carbon = np.array(world["xPhi_M"]) @ self.carbon + np.array(world["xB_M"]) * emissions.sum()
        self.temperature, self.carbon = temperature.astype(F), carbon.astype(F)

    def _grow(self) -> None:
        """Rule 12: stocks of the next period."""
        alike, regional, years = self._alike, self._regional, 5 * (self.n - 1)
        self.capital = ((1 - alike["xdelta_K"]) ** 5 * self.capital + 5 * self.investment.astype(float)).astype(F)
        labor = self.labor.astype(float)
        self.labor = (labor * ((1 + regional["xL_a"]) / (1 + labor)) ** regional["xl_g"]).astype(F)
        growth = np.exp(self._trade["growth_eta"]) + regional["xg_A"] * np.exp(-regional["xdelta_A"] * years)
        self.technology = (self.technology * growth).astype(F)
        decline = np.exp(-alike["xg_sigma"] * (1 - alike["xdelta_sigma"]) ** years * 5)
        self.intensity = (self.intensity * decline).astype(F)

    def observe(self) -> Any:
        """Return the observations in the form of the env: whole rows, or what all regions observe alike and the rest."""
        rows = self.rows()
        shared = slice(N, N + 8 + int(self._negotiates) + 10 * N + N * N)
        return {"region": {"shared": rows[0, shared], "own": np.delete(rows, shared, axis=1)}} if self._parts else rows

    def rows(self) -> np.ndarray:
        """Return whole rows, float32 (27, 1043), or (27, 1207) with negotiation."""
        alike = [*self.temperature / F(10), *self.carbon / F(1e4), self.forcing, self.land, self.t / 100]
        alike += [self.stage] if self._negotiates else []
        regions = [self.capital / 1e4, np.full(N, self.kept_capital), self.labor / 1e4, self.output / 1e3, self.investment / 1e3,
                   self.consumption / 1e3, self.savings, self.mitigation, self.export_limit, self.balance / 1e3]  # fmt: skip
        of_world = np.concatenate([alike, *regions, self.tariffs.ravel() / 100])
        private = [self.technology / 100, self.intensity / 0.1, self.mitigation_cost, self.damages, self.abatement,
               self.production / 1e3, self.utility, self.welfare, self.reward]  # fmt: skip
        parts = [np.eye(N), np.broadcast_to(of_world, (N, len(of_world))), np.stack(private, 1)]
        if self._negotiates:
            parts += [self.minimum_mitigation[:, None], self.promises, self.promises.T, self.requests, self.requests.T]
            parts += [self.decisions, self.decisions.T]
        return np.concatenate(parts, 1).astype(F)

    def mask(self) -> np.ndarray:
        """Allowed mitigation rates, bool (27, choices)."""
        least = np.rint(self.minimum_mitigation.astype(float) * self._levels)
        allowed: np.ndarray = np.arange(self._choices) >= least[:, None]
        return allowed

    def effects(self) -> np.ndarray:
        """Which entries the next step reads, bool (27, 3): those of a period, of proposals, of decisions."""
        return np.tile(np.arange(3) == (self.t + 1) % 3, (N, 1))
