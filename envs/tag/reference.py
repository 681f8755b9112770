"""Continuous Tag in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel. Arithmetic is float64. Values
that are float32 by the rules (parameters, state, action tables, distances, observations) are rounded when they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

TWO_PI = float(np.float32(2 * np.pi))


def to_float32(values: Any) -> np.ndarray:
    """Return the values rounded to float32, as a float64 array."""
    return np.asarray(values, np.float32).astype(np.float64)


class TagReference:
    """One world of N agents, taggers first, runners after them.

    Args:
        params: resolved parameters of WarpTag-v0, by name.

    Attributes:
        loc_x, loc_y: float64 (N,) holding float32 values, in [0, grid_length]. All float state has this form.
        speed: (N,), length a step.
        direction: (N,), radians in [0, 2 pi].
        acceleration: (N,), length a step squared.
        alive: bool (N,), True for agents in the game.
        tagged_by: int (N,), the tagger that tagged this agent in the last step, -1 if none did.
        t: steps taken in this episode.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self.num_taggers = int(params["num_taggers"])
        self.num_agents = self.num_taggers + int(params["num_runners"])
        self.is_tagger = np.arange(self.num_agents) < self.num_taggers
        self.side = self._real("grid_length")
        self.margin = float(to_float32(params["tagging_distance"] * self.side))
        skill = np.where(self.is_tagger, self._real("skill_level_tagger"), self._real("skill_level_runner"))
        self.top_speed = to_float32(self._real("max_speed") * skill)
        self.accelerations = self._table("acceleration")
        self.turns = self._table("turn")
        zeros = np.zeros(self.num_agents)
        self.reset(zeros, zeros, zeros)

    def reset(self, loc_x: np.ndarray, loc_y: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Start an episode at given positions (N,) and headings (N,) in radians.

        Returns:
            float32 (N, 7 w + 1), the first observations.
        """
        self.loc_x, self.loc_y, self.direction = to_float32(loc_x), to_float32(loc_y), to_float32(direction)
        self.speed, self.acceleration = np.zeros(self.num_agents), np.zeros(self.num_agents)
        self.alive = np.ones(self.num_agents, bool)
        self.tagged_by = np.full(self.num_agents, -1)
        self.t = 0
        return self.observe()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec and ``t``."""
        self.reset(state["loc_x"], state["loc_y"], state["direction"])
        self.speed, self.acceleration = to_float32(state["speed"]), to_float32(state["acceleration"])
        self.alive, self.tagged_by, self.t = state["alive"] != 0, np.array(state["tagged_by"]), int(state["t"])

    def get_state(self) -> dict[str, Any]:
        """Return the state under the names of the spec."""
        names = ("loc_x", "loc_y", "speed", "direction", "acceleration", "alive", "tagged_by", "t")
        return {name: getattr(self, name) for name in names}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool, bool]:
        """Advance by one step.

        Args:
            actions: valid indices (N, 2); with ``flatten_actions`` indices (N,); with ``continuous_actions`` floats
                (N, 2), the change of acceleration and the turn in radians.

        Returns:
            obs: float32 (N, 7 w + 1), made after the moves and before tagged runners leave.
            reward: float64 (N,).
            terminated: every runner has left.
            truncated: the time limit is reached.
        """
        self.t += 1
        crossed = self._move(*self._changes(np.asarray(actions)))
        obs = self.observe()
        reward = self._rewards_of_moving(crossed)
        self._tag(reward)
        truncated = self.t >= self._params["episode_length"]
        if truncated:
            reward[self.alive & ~self.is_tagger] += self._real("end_of_game_reward_for_runner")
        terminated = not self.alive[~self.is_tagger].any()
        return obs, reward, terminated, truncated

    def observe(self) -> np.ndarray:
        """Observations of the present state, float32 (N, 7 w + 1), seven channels of w features, then the time.

        ``extended_observation`` adds six features of the agent itself.
        """
        full = self._params["use_full_observation"]
        width = self.num_agents - 1 if full else int(self._params["num_other_agents_observed"])
        obs = np.zeros((self.num_agents, 7 * width + 1))
        for i in range(self.num_agents):
            blocks = obs[i, :-1].reshape(7, width)  # a view
            neighbours = np.delete(np.arange(self.num_agents), i) if full else self.nearest(i)[:width]
            if full:
                blocks[5], blocks[6] = self.is_tagger[neighbours], self.alive[neighbours]
            if not self.alive[i]:
                continue
            count = len(neighbours)
            speed_scale = self._real("max_speed") + 1e-10
            blocks[0, :count] = (self.loc_x[neighbours] - self.loc_x[i]) / (self.side * np.sqrt(2))
            blocks[1, :count] = (self.loc_y[neighbours] - self.loc_y[i]) / (self.side * np.sqrt(2))
            blocks[2, :count] = (self.speed[neighbours] - self.speed[i]) / speed_scale
            blocks[3, :count] = (self.acceleration[neighbours] - self.acceleration[i]) / speed_scale
            blocks[4, :count] = (self.direction[neighbours] - self.direction[i]) / (2 * np.pi)
            blocks[5, :count] = self.is_tagger[neighbours]
            blocks[6, :count] = self.alive[neighbours]
            obs[i, -1] = self.t / self._params["episode_length"]
        if self._params["extended_observation"]:
            obs = np.concatenate([obs, self._own_state() * self.alive[:, None]], axis=1)
        return obs.astype(np.float32)

    def _own_state(self) -> np.ndarray:
        """Each agent's own position, speed, acceleration, heading and type, scaled, (N, 6)."""
        speed_scale = self._real("max_speed") + 1e-10
        position = [self.loc_x / self.side, self.loc_y / self.side]
        motion = [self.speed / speed_scale, self.acceleration / speed_scale, self.direction / (2 * np.pi)]
        return np.stack([*position, *motion, self.is_tagger], axis=1)

    def nearest(self, i: int) -> np.ndarray:
        """Indices of the other agents in the game, nearest to agent i first; of equal distances, the lower index first.

        Squared float32 distances are compared, because square roots could round different squares to equal distances.
        """
        neighbours = np.flatnonzero(self.alive & (np.arange(self.num_agents) != i))
        dx, dy = to_float32(self.loc_x[neighbours] - self.loc_x[i]), to_float32(self.loc_y[neighbours] - self.loc_y[i])
        return neighbours[np.argsort(to_float32(to_float32(dx * dx) + to_float32(dy * dy)), kind="stable")]

    def distances(self, i: int, neighbours: np.ndarray) -> np.ndarray:
        """Distances (n,) from agent i to others (n,), rounded to float32."""
        return to_float32(np.hypot(self.loc_x[neighbours] - self.loc_x[i], self.loc_y[neighbours] - self.loc_y[i]))

    def _real(self, name: str) -> float:
        return float(to_float32(self._params[name]))

    def _table(self, entry: str) -> np.ndarray:
        """Change that each index of an action entry selects: 0, then evenly spaced values from the lower to the upper bound."""
        low, high, levels = self._real(f"min_{entry}"), self._real(f"max_{entry}"), self._params[f"num_{entry}_levels"]
        spaced = [low + j * (high - low) / (levels - 1) if levels > 1 else low for j in range(levels)]
        return to_float32([0.0, *spaced])

    def _changes(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Change of acceleration (N,) and turn (N,) that the actions choose."""
        if self._params["continuous_actions"]:
            known = np.where(np.isnan(actions), 0.0, to_float32(actions))
            return (
                np.clip(known[:, 0], self._real("min_acceleration"), self._real("max_acceleration")),
                np.clip(known[:, 1], self._real("min_turn"), self._real("max_turn")),
            )
        if self._params["flatten_actions"]:
            first, second = np.divmod(actions, len(self.turns))
        else:
            first, second = actions[:, 0], actions[:, 1]
        return self.accelerations[first], self.turns[second]

    def _move(self, change: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """Turn, accelerate and move; return bool (N,), True for agents that a wall stopped."""
        acceleration = to_float32(self.acceleration + change)
        self.direction = to_float32(np.mod(to_float32(self.direction + turn), TWO_PI) * self.alive)
        self.speed = to_float32(np.clip(self.speed + acceleration, 0.0, self.top_speed) * self.alive)
        at_bound = (self.speed <= 0) | (self.speed >= self.top_speed)
        self.acceleration = np.where(at_bound, 0.0, acceleration)
        x = self.loc_x + self.speed * np.cos(self.direction)
        y = self.loc_y + self.speed * np.sin(self.direction)
        self.loc_x, self.loc_y = to_float32(np.clip(x, 0.0, self.side)), to_float32(np.clip(y, 0.0, self.side))
        crossed: np.ndarray = (x < 0) | (x > self.side) | (y < 0) | (y > self.side)
        return crossed

    def _rewards_of_moving(self, crossed: np.ndarray) -> np.ndarray:
        rewards = np.where(self.is_tagger, self._real("step_penalty_for_tagger"), self._real("step_reward_for_runner"))
        return np.where(self.alive, rewards + crossed * self._real("edge_hit_penalty"), 0.0)

    def _tag(self, reward: np.ndarray) -> None:
        """Pay for tags and remove tagged runners from the game. All tags use the same positions."""
        self.tagged_by[:] = -1
        taggers = np.flatnonzero(self.is_tagger)
        for runner in np.flatnonzero(self.alive & ~self.is_tagger).tolist():
            distances = self.distances(runner, taggers)
            catcher = int(np.argmin(distances))  # of equal distances, the lowest index
            if distances[catcher] < self.margin:
                self.tagged_by[runner] = catcher
                reward[runner] += self._real("tag_penalty_for_runner")
                reward[catcher] += self._real("tag_reward_for_tagger")
        if self._params["runner_exits_game_after_tagged"]:
            self.alive = self.alive & (self.tagged_by < 0)
