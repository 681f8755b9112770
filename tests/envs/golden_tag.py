"""A recorded trajectory of Tag, with its agents permuted to our order (taggers first)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted(path.name for path in GOLDEN.glob("cont_*.npz"))

DEFAULTS = {
    "num_taggers": 1, "num_runners": 10, "grid_length": 10.0, "episode_length": 100, "max_speed": 1.0,
    "max_acceleration": 1.0, "min_acceleration": -1.0, "max_turn": np.pi / 2, "min_turn": -np.pi / 2,
    "num_acceleration_levels": 10, "num_turn_levels": 10, "use_full_observation": True, "num_other_agents_observed": 2,
    "tagging_distance": 0.01, "tag_reward_for_tagger": 1.0, "tag_penalty_for_runner": -1.0,
}  # fmt: skip
"""Defaults of the project that made the recordings, where they differ from ours."""

STATE = ("loc_x", "loc_y", "speed", "direction", "acceleration")


class GoldenTag:
    """A recording. Agents, and neighbours in observations, are permuted so that taggers come first."""

    def __init__(self, name: str) -> None:
        self.data = np.load(GOLDEN / name)
        meta = json.loads(str(self.data["meta_json"]))
        given = {key: value for key, value in meta["params"].items() if key != "seed"}
        self.params = {**DEFAULTS, **given}
        types = self.data["agent_type"]
        self.order = np.concatenate([np.flatnonzero(types == 1), np.flatnonzero(types == 0)])
        self.steps = len(self.data["done"])

    def agents(self, name: str) -> np.ndarray:
        """Array (S, N, ...) in our order of agents."""
        return self.data[name][:, self.order]

    def start(self, name: str) -> np.ndarray:
        """Start value (N,) in our order of agents."""
        return self.data[f"init_{name}"][self.order]

    def before(self, name: str) -> np.ndarray:
        """Value (S, N) before each step: that after the previous step, or the start value in the first step of an episode."""
        rows = np.concatenate([self.start(name)[None], self.agents(name)[:-1]])
        rows[self.after_reset()] = self.start(name)
        return rows

    def alive_before(self) -> np.ndarray:
        """Int32 array (S, N), 1 for agents in the game before each step."""
        rows = np.concatenate([np.ones((1, len(self.order)), np.int32), self.agents("still")[:-1].astype(np.int32)])
        rows[self.after_reset()] = 1
        return rows

    def after_reset(self) -> np.ndarray:
        """Bool array (S,), True for steps that follow a reset."""
        return np.concatenate([[True], self.data["done"][:-1] == 1])

    def observations(self, raw: np.ndarray) -> np.ndarray:
        """Observations (S, N, D) with observers, and the neighbours in full observations, in our order of agents."""
        raw = raw[:, self.order]
        if not self.params["use_full_observation"]:
            return raw
        agents = len(self.order)
        width = agents - 1
        permuted = raw.copy()
        for i, observer in enumerate(self.order):
            slots = [other - (other > observer) for k, other in enumerate(self.order) if k != i]
            for block in range(7):
                permuted[:, i, block * width : (block + 1) * width] = raw[:, i, block * width :][:, slots]
        return permuted
