"""Cases to measure: envs, parameters and numbers of worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

CARTPOLE, TAG = "WarpCartPole-v1", "WarpTag-v0"
SPREAD, FORAGING, RWARE = "WarpSimpleSpread-v3", "WarpForaging-v3", "WarpRware-v2"

AGENTS: dict[str, dict[str, int]] = {
    TAG: {"num_taggers": 5, "num_runners": 100},
    "WarpGridTag-v0": {"num_taggers": 4, "num_runners": 1},
    SPREAD: {"num_landmarks": 3},
    FORAGING: {"players": 2},
    RWARE: {"n_agents": 2},
}
"""Parameters of envs whose sum is the number of agents, and their defaults; other envs have one agent."""

CORNER = 1 / 20
"""Side of the corner in which all agents start, as a fraction of the square's side."""


@dataclass(frozen=True)
class Case:
    """An env, its parameters and a number of worlds.

    ``only`` lists the ways to run; empty means all. Cases that fill the memory list a single way.
    ``starts`` is ``"own"`` for the env's own start states, or ``"corner"``: all agents start in one corner of the square and stay
    there, because their acceleration is 0.
    """

    env: str
    worlds: int
    params: dict[str, Any] = field(default_factory=dict)
    starts: str = "own"
    only: tuple[str, ...] = ()

    @property
    def agents(self) -> int:
        """Agents in a world."""
        return sum(int(self.params.get(name, default)) for name, default in AGENTS.get(self.env, {"": 1}).items())

    @property
    def name(self) -> str:
        """Env, number of worlds and parameters that are not defaults, in one line."""
        settings = [f"{key}={value}" for key, value in self.params.items()]
        corner = ["in one corner"] if self.starts == "corner" else []
        return ", ".join([f"{self.env} x {self.worlds:,}", *settings, *corner])

    @property
    def entries(self) -> dict[str, Any]:
        """Entries that every row of the case has beside env, parameters and worlds."""
        return {}

    def env_params(self) -> dict[str, Any]:
        """Keywords for ``make_vec``."""
        if self.starts == "own":
            return dict(self.params)
        side = float(self.params.get("grid_length", 20.0)) * CORNER
        x, y = np.random.default_rng(0).uniform(0, side, (2, self.agents)).astype(np.float32)
        still = {"max_acceleration": 0.0, "min_acceleration": 0.0}
        return {**self.params, **still, "starting_location_x": x.tolist(), "starting_location_y": y.tolist()}


STAY = {"runner_exits_game_after_tagged": False}
"""Tagged runners stay in the game, so that all steps have the same number of agents."""

CLASSIC = ("WarpAcrobot-v1", "WarpPendulum-v1", "WarpMountainCar-v0")
CONTINUOUS = "WarpMountainCarContinuous-v0"
OTHERS = (*CLASSIC, CONTINUOUS, "WarpGridTag-v0")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
SIMPLE_TAG = {"num_taggers": 3, "num_runners": 1, "num_other_agents_observed": 3}
COOP = {"max_num_food": 2, "force_coop": True}
WAREHOUSE = {"shelf_rows": 2, "n_agents": 4, "request_queue_size": 8}
"""Parameters that Jumanji's foraging and warehouse have by default; Jumanji's warehouse ends on a collision."""

SUITES: tuple[tuple[str, dict[str, Any]], ...] = (
    (SPREAD, {}), (FORAGING, COOP), (RWARE, WAREHOUSE), (RWARE, {**WAREHOUSE, "collision": "end"}),
)  # fmt: skip
"""Envs of papers with their parameters, each beside its original or a port."""


def tag(taggers: int, runners: int, **more: Any) -> dict[str, Any]:
    """Return parameters of WarpTag-v0 with runners that stay in the game after a tag."""
    return {"num_taggers": taggers, "num_runners": runners, **STAY, **more}


GPU_CASES: tuple[Case, ...] = (
    *(Case(CARTPOLE, worlds) for worlds in (*SIZES, 4_000_000, 16_000_000)),
    *(Case(CARTPOLE, worlds, only=("graph",)) for worlds in (2_000_000, 64_000_000, 256_000_000)),
    *(Case(env, worlds) for env in CLASSIC for worlds in SIZES),
    *(Case(CONTINUOUS, worlds) for worlds in (1_000, 1_000_000)),
    *(Case(TAG, worlds, tag(5, 100)) for worlds in (60, 500, 2_000, 16_000)),
    *(Case(TAG, worlds, tag(5, 100), only=("graph",)) for worlds in (4_000, 8_000)),
    Case(TAG, 2_000, tag(5, 100, use_full_observation=True)),
    *(Case(TAG, 2_000, tag(5, agents - 5)) for agents in (125, 250, 500)),
    *(Case(TAG, 2_000, tag(50, 950), starts) for starts in ("own", "corner")),
    *(Case(TAG, 500, tag(50, agents - 50)) for agents in (1_000, 2_000, 4_000)),
    *(Case(TAG, worlds, {**SIMPLE_TAG, **STAY}) for worlds in (1_000, 100_000)),
    Case("WarpGridTag-v0", 100_000),
    *(Case(env, worlds, params) for env, params in SUITES for worlds in (10_000, 100_000)),
)

CPU_CASES: tuple[Case, ...] = (
    *(Case(CARTPOLE, worlds) for worlds in (1_000, 10_000, 100_000)),
    *(Case(env, 10_000) for env in (*CLASSIC, CONTINUOUS)),
    Case(TAG, 1, tag(5, 100)),
    Case(TAG, 64, tag(5, 100)),
    Case(TAG, 1_000, {**SIMPLE_TAG, **STAY}),
    Case("WarpGridTag-v0", 1_000),
    *(Case(env, 10_000, params) for env, params in SUITES),
)

INFERENCE = {
    "cuda": (
        *(Case(CARTPOLE, worlds) for worlds in SIZES),
        *(Case(TAG, worlds, tag(5, 100)) for worlds in (500, 2_000)),
        *(Case(env, 10_000) for env in OTHERS),
    ),
    "cpu": (
        *(Case(CARTPOLE, worlds) for worlds in (1_000, 10_000)),
        Case(TAG, 16, tag(5, 100)),
        *(Case(env, 200) for env in OTHERS),
    ),
}

START_UP = {
    "cuda": (Case(CARTPOLE, 1_000_000), Case(TAG, 2_000)),
    "cpu": (Case(CARTPOLE, 10_000), Case(TAG, 16)),
}

START_OF_TRAINING = (Case(CARTPOLE, 64),)
"""Cases of starts of training, with the number of worlds of their presets."""


AnyCase = TypeVar("AnyCase", bound=Case)


def choose(cases: Sequence[AnyCase], envs: Sequence[str], sizes: Sequence[int], names: Sequence[str] = ()) -> list[AnyCase]:
    """Return the cases whose env id contains a word of ``envs``, each with every number of worlds in ``sizes``.

    Empty ``envs`` choose all cases. With empty ``sizes`` each case keeps its number of worlds. If there are ``names``, the
    name of a case, with its own number of worlds, contains one of them.
    """
    chosen = [case for case in cases if _has(case.env, envs) and _has(case.name, names)]
    if not sizes:
        return chosen
    resized = [replace(case, worlds=worlds, only=()) for case in chosen for worlds in sizes]
    return [case for i, case in enumerate(resized) if case not in resized[:i]]


def _has(text: str, words: Sequence[str]) -> bool:
    """True if there are no words, or the text contains one of them in any case."""
    return not words or any(word.lower() in text.lower() for word in words)
