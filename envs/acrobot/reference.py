"""Acrobot in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel. Arithmetic is float64; the
state is rounded to float32 after each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

STEP = 0.2  # s
FASTEST = np.array([4 * np.pi, 9 * np.pi])  # rad/s


class AcrobotReference:
    """Two links that hang from a pivot.

    Args:
        params: resolved parameters of WarpAcrobot-v1, by name; one number each.

    Attributes:
        state: float32 (4,): angle of the first link from the downward vertical and of the second link from the first, in
            rad within [-pi, pi], then their velocities in rad/s.
        t: steps taken in this episode.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self.reset(np.zeros(4))

    def reset(self, state: np.ndarray) -> np.ndarray:
        """Start an episode in the given state (4,); returns the observation, float32 (6,)."""
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
        """Observation of the present state, float32 (6,): cosine and sine of each angle, then the velocities in rad/s."""
        a1, a2, v1, v2 = self.state.astype(np.float64)
        return np.array([np.cos(a1), np.sin(a1), np.cos(a2), np.sin(a2), v1, v2], np.float32)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        """Apply a torque of -1 (action 0), 0 (1) or 1 N m (2) to the joint between the links for one step.

        One step of the classical fourth-order Runge-Kutta method.

        Returns:
            obs: float32 (6,), after the step.
            reward: -1; 0 in the step that ends the episode.
            terminated: the free end is above the line, assuming links of one metre.
            truncated: the time limit is reached.
        """
        torque = float(action - 1)
        start = self.state.astype(np.float64)
        k1 = self.rates(start, torque)
        k2 = self.rates(start + STEP / 2 * k1, torque)
        k3 = self.rates(start + STEP / 2 * k2, torque)
        k4 = self.rates(start + STEP * k3, torque)
        end = start + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        angles = end[:2] - 2 * np.pi * np.round(end[:2] / (2 * np.pi))  # wrapped to [-pi, pi]
        velocities = np.clip(end[2:], -FASTEST, FASTEST)
        self.state = np.concatenate([angles, velocities]).astype(np.float32)
        self.t += 1

        terminated = bool(self.height() > 1)
        limit = self._params["max_episode_steps"]
        return self.observe(), 0.0 if terminated else -1.0, terminated, bool(limit > 0 and self.t >= limit)

    def height(self) -> float:
        """Height of the free end above the pivot in metres, if both links are one metre long."""
        a1, a2 = self.state[:2].astype(np.float64)
        return float(-np.cos(a1) - np.cos(a1 + a2))

    def rates(self, joints: np.ndarray, torque: float) -> np.ndarray:
        """Rates of change (4,) of angles and velocities (4,): the equations of motion of the two-link pendulum.

        They are those of R. Sutton and A. Barto, "Reinforcement Learning: An Introduction" (1998), section 11.3, solved
        as a linear system for the accelerations. Without ``book_dynamics``, the effect of the first link's rotation on the second
        is left out, as in R. Sutton's paper of 1996.
        """
        p = self._params
        m1, m2, length, c1, c2 = (p[f"link_{name}"] for name in ("mass_1", "mass_2", "length_1", "com_pos_1", "com_pos_2"))
        a1, a2, v1, v2 = joints
        second = m2 * c2**2 + p["link_moi"]  # inertia of the second link about the joint
        first = m1 * c1**2 + m2 * length**2 + p["link_moi"]
        coupling = m2 * length * c2
        mixed = second + coupling * np.cos(a2)
        inertia = np.array([[first + second + 2 * coupling * np.cos(a2), mixed], [mixed, second]])

        weight2 = m2 * c2 * p["gravity"] * np.sin(a1 + a2)
        weight1 = (m1 * c1 + m2 * length) * p["gravity"] * np.sin(a1) + weight2
        turning1 = -coupling * np.sin(a2) * (v2**2 + 2 * v1 * v2)
        turning2 = coupling * np.sin(a2) * v1**2 if p["book_dynamics"] else 0.0
        accelerations = np.linalg.solve(inertia, [-turning1 - weight1, torque - turning2 - weight2])
        return np.array([v1, v2, *accelerations])
