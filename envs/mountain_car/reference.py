"""MountainCar in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel. Arithmetic is float64; the
state is rounded to float32 after each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# float32, because the rules compare them with the float32 state
WALL = np.float32(-1.2)  # position
END = np.float32(0.6)
FLAG = np.float32(0.5)
FASTEST = np.float32(0.07)  # position a step


class Valley:
    """A car in the valley of both mountain car envs, which differ in the engine, the flag and the reward.

    Args:
        params: resolved parameters of the env, by name; one number each.

    Attributes:
        state: float32 (2,): position, and velocity in positions a step.
        t: steps taken in this episode.
    """

    flag = FLAG

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self.reset(np.zeros(2))

    def reset(self, state: np.ndarray) -> np.ndarray:
        """Start an episode in the given state (2,); returns the observation, float32 (2,)."""
        self.state = np.array(state, np.float32)
        self.t = 0
        return self.observe()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec and ``t``."""
        self.state, self.t = np.array(state["state"], np.float32), int(state["t"])

    def get_state(self) -> dict[str, Any]:
        """Return the state under the names of the spec."""
        return {"state": self.state, "t": self.t}

    def observe(self) -> np.ndarray:
        """Observation of the present state, float32 (2,): the state."""
        return self.state.copy()

    def drive(self, push: float) -> tuple[bool, bool]:
        """Move by one step with the engine's push, in positions a step squared.

        The equations are those of A. Moore, "Efficient Memory-based Learning for Robot Control" (1990).

        Returns:
            terminated: the car is at the flag and fast enough.
            truncated: the time limit is reached.
        """
        x, v = self.state.astype(np.float64)
        v = np.clip(v + push - self._params["gravity"] * np.cos(3 * x), -FASTEST, FASTEST)
        x = np.clip(x + v, WALL, END)
        if x == WALL and v < 0:
            v = 0.0
        self.state = np.array([x, v], np.float32)
        self.t += 1
        terminated = bool(self.state[0] >= self.flag and self.state[1] >= self._params["goal_velocity"])
        limit = self._params["max_episode_steps"]
        return terminated, bool(limit > 0 and self.t >= limit)


class MountainCarReference(Valley):
    """A car whose engine pushes with one force. Arguments and attributes: see the base class."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        """Push left (0), not at all (1) or right (2) for one step.

        Returns:
            obs: float32 (2,), the state.
            reward: -1.
            terminated: the car is at the flag and fast enough.
            truncated: the time limit is reached.
        """
        terminated, truncated = self.drive((action - 1) * self._params["force"])
        return self.observe(), -1.0, terminated, truncated
