"""Pendulum in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel. Arithmetic is float64; the
state is rounded to float32 after each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

STEP = 0.05  # s
FASTEST = 8.0  # rad/s
STRONGEST = 2.0  # N m


class PendulumReference:
    """One rod that turns about its end.

    Args:
        params: resolved parameters of WarpPendulum-v1, by name; one number each.

    Attributes:
        state: float32 (2,): angle from upright in rad, not wrapped, and angular velocity in rad/s.
        t: steps taken in this episode.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self.reset(np.zeros(2))

    def reset(self, state: np.ndarray) -> np.ndarray:
        """Start an episode in the given state (2,); returns the observation, float32 (3,) or (2,)."""
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
        """Observation of the present state, float32 (3,): cosine and sine of the angle, angular velocity in rad/s.

        Without ``observe_velocity`` it is (2,), and the velocity is left out.
        """
        angle, velocity = self.state.astype(np.float64)
        direction = [np.cos(angle), np.sin(angle)]
        return np.array([*direction, velocity] if self._params["observe_velocity"] else direction, np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """Turn with a torque for one step.

        Args:
            action: float (1,): the torque in N m, counter-clockwise. It is clipped to [-2, 2].

        Returns:
            obs: float32 (3,) or (2,), after the step.
            reward: minus the weighted sum of the squares of angle and velocity, both before the step, and of the torque.
            terminated: never.
            truncated: the time limit is reached.
        """
        angle, velocity = self.state.astype(np.float64)
        torque = float(np.clip(action[0], -STRONGEST, STRONGEST))
        tilt = angle - 2 * np.pi * np.round(angle / (2 * np.pi))  # wrapped to [-pi, pi]
        reward = -float(tilt**2 + 0.1 * velocity**2 + 0.001 * torque**2)

        mass, length = self._params["m"], self._params["l"]
        inertia = mass * length**2 / 3
        weight = mass * self._params["g"] * length / 2 * np.sin(angle)  # torque of the weight, which acts at half the length
        velocity = np.clip(velocity + (weight + torque) / inertia * STEP, -FASTEST, FASTEST)
        self.state = np.array([angle + velocity * STEP, velocity], np.float32)
        self.t += 1
        limit = self._params["max_episode_steps"]
        return self.observe(), reward, False, bool(limit > 0 and self.t >= limit)
