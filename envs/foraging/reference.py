"""Level-based foraging in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel. Cells are tuples of row and column, rewards
float64; observations are rounded to float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

Cell = tuple[int, int]

MOVES: dict[int, Cell] = {1: (-1, 0), 2: (1, 0), 3: (0, -1), 4: (0, 1)}
"""Change of row and column by each action that moves."""

LOAD = 5


def beside(cell: Cell, step: Cell) -> Cell:
    """Return the cell one step away."""
    return cell[0] + step[0], cell[1] + step[1]


class ForagingReference:
    """One world of P players on a board with food.

    Args:
        params: resolved parameters of WarpForaging-v3, by name.

    Attributes:
        places: cell of each player.
        levels: level of each player.
        food: level of each food by its cell, row by row.
        spawned: sum of the levels of all food at the start.
        t: steps taken in this episode.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self.places: list[Cell] = [(0, 0)] * params["players"]
        self.levels = [1] * params["players"]
        self.food: dict[Cell, int] = {}
        self.spawned = self.t = 0

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec and ``t``."""
        self.places = [(int(row), int(col)) for row, col in state["player_pos"]]
        self.levels = [int(level) for level in state["player_level"]]
        board = np.asarray(state["food"])
        self.food = {(int(row), int(col)): int(board[row, col]) for row, col in np.argwhere(board)}
        self.spawned, self.t = int(state["food_spawned"]), int(state["t"])

    def get_state(self) -> dict[str, Any]:
        """Return the state under the names of the spec."""
        board = np.zeros((self._params["rows"], self._params["cols"]), int)
        for cell, level in self.food.items():
            board[cell] = level
        return {"player_pos": np.array(self.places), "player_level": np.array(self.levels), "food": board,
                "food_spawned": self.spawned, "t": self.t}  # fmt: skip

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool, bool]:
        """Move all players at once, then load food.

        Args:
            actions: indices (P,): 0 none, 1 north, 2 south, 3 west, 4 east, 5 load.

        Returns:
            obs: float32 (P, F), after the step.
            reward: float64 (P,).
            terminated: no food is left.
            truncated: the time limit is reached.
        """
        self.t += 1
        loading: dict[Cell, list[int]] = {}
        for player, action in enumerate(actions):
            near = [beside(self.places[player], step) for step in MOVES.values()]
            cells = [cell for cell in near if cell in self.food]
            if action == LOAD and cells:
                loading.setdefault(cells[0], []).append(player)
        targets = [self._target(place, int(action)) for place, action in zip(self.places, actions, strict=True)]
        arriving = Counter(targets)
        self.places = [target if arriving[target] == 1 else place for place, target in zip(self.places, targets, strict=True)]
        reward = np.zeros(len(self.places))
        for cell, players in loading.items():
            reward[players] = self._load(cell, players)
        return self.observe(), reward, not self.food, self.t >= self._params["max_episode_steps"]

    def _target(self, place: Cell, action: int) -> Cell:
        """Return the cell that a player goes to if it is alone there; its place if the move is not valid."""
        target = beside(place, MOVES.get(action, (0, 0)))
        inside = 0 <= target[0] < self._params["rows"] and 0 <= target[1] < self._params["cols"]
        return target if inside and target not in self.food else place

    def _load(self, cell: Cell, players: list[int]) -> np.ndarray:
        """Return the rewards of players that load a food together, and take it off the board if their levels suffice."""
        levels = np.array([self.levels[player] for player in players])
        if levels.sum() < self.food[cell]:
            return np.full(len(players), -self._params["penalty"])
        reward = levels * self.food.pop(cell)
        return reward / (levels.sum() * self.spawned) if self._params["normalize_reward"] else reward

    def observe(self) -> np.ndarray:
        """Observations of the present state, float32 (P, 3 F + 3 P), or (P, 3 F + 2 P) without levels of players."""
        return np.array([self._observation(player) for player in range(len(self.places))], np.float32)

    def _observation(self, player: int) -> list[int]:
        """Foods in sight, the player, the other players in sight; rows and columns count from the first ones in sight."""
        sight, (row, col) = self._params["sight"], self.places[player]
        top, left = max(row - sight, 0), max(col - sight, 0)
        foods = [
            [r - top, c - left, level]
            for (r, c), level in sorted(self.food.items())
            if abs(r - row) <= sight and abs(c - col) <= sight
        ]
        foods += [[-1, -1, 0]] * (self._params["max_num_food"] - len(foods))
        players = [[row - top, col - left, self.levels[player]]]
        for other, (r, c) in enumerate(self.places):
            if other != player and 0 <= r - top <= 2 * sight and 0 <= c - left <= 2 * sight:
                players.append([r - top, c - left, self.levels[other]])
        players += [[-1, -1, 0]] * (len(self.places) - len(players))
        shown = 3 if self._params["observe_agent_levels"] else 2
        return [number for entry in foods + [each[:shown] for each in players] for number in entry]
