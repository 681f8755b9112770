"""Gridworld Tag in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel. Cells are whole numbers, rewards
float64; observations are rounded to float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])  # change of x and y, an action a row


class GridTagReference:
    """One world of N agents, taggers first, the one runner last.

    Args:
        params: resolved parameters of WarpGridTag-v0, by name.

    Attributes:
        loc: int (N, 2), cells: x and y of each agent, from 0 to ``grid_length``.
        t: steps taken in this episode.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self.num_agents = int(params["num_taggers"]) + 1
        self.runner = self.num_agents - 1
        self.is_runner = np.arange(self.num_agents) == self.runner
        self.side = int(params["grid_length"])
        zeros = np.zeros(self.num_agents)
        self.reset(zeros, zeros)

    def reset(self, loc_x: np.ndarray, loc_y: np.ndarray) -> np.ndarray:
        """Start an episode on given cells (N,); returns the observations as ``observe()`` does."""
        self.loc = np.stack([loc_x, loc_y], axis=1).astype(int)
        self.t = 0
        return self.observe()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec and ``t``."""
        self.reset(state["loc_x"], state["loc_y"])
        self.t = int(state["t"])

    def get_state(self) -> dict[str, Any]:
        """Return the state under the names of the spec."""
        return {"loc_x": self.loc[:, 0], "loc_y": self.loc[:, 1], "t": self.t}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool, bool]:
        """Move all agents at once.

        Args:
            actions: indices (N,): 0 stay, 1 x + 1, 2 x - 1, 3 y + 1, 4 y - 1.

        Returns:
            obs: float32 (N, F), after the moves.
            reward: float64 (N,).
            terminated: a tagger is on the runner's cell.
            truncated: the time limit is reached.
        """
        self.t += 1
        target = self.loc + MOVES[actions]
        self.loc = np.clip(target, 0, self.side)
        stopped = (self.loc != target).any(axis=1)
        tagged = bool((self.loc[: self.runner] == self.loc[self.runner]).all(axis=1).any())

        p = self._params
        if tagged:
            reward = np.where(self.is_runner, -p["tag_penalty_for_runner"], p["tag_reward_for_tagger"])
        else:
            reward = np.where(self.is_runner, p["step_cost_for_tagger"], -p["step_cost_for_tagger"])
        reward = reward - p["wall_hit_penalty"] * stopped
        return self.observe(), reward, tagged, self.t >= p["episode_length"]

    def observe(self) -> np.ndarray:
        """Observations of the present state, float32 (N, 4 N + 1), or (N, 6) without ``use_full_observation``."""
        places, time = self.loc / self.side, self.t / self._params["episode_length"]
        rows = []
        for i in range(self.num_agents):
            if self._params["use_full_observation"]:
                observer = np.arange(self.num_agents) == i
                rows.append([*places[:, 0], *places[:, 1], *self.is_runner, *observer, time])
            else:
                rows.append([*places[i], *places[self.opponent(i)], self.is_runner[i], time])
        return np.array(rows, np.float32)

    def opponent(self, i: int) -> int:
        """Opponent of agent i: for a tagger the runner, for the runner its nearest tagger (of equals, the lowest index)."""
        if i != self.runner:
            return self.runner
        squares = ((self.loc[: self.runner] - self.loc[i]) ** 2).sum(axis=1)
        return int(np.argmin(squares))
