"""CartPole in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel. Arithmetic is float64; the
state is rounded to float32 after each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

FARTHEST = 2.4  # m
STEEPEST = np.radians(12)


class CartPoleReference:
    """One cart with one pole.

    Args:
        params: resolved parameters of WarpCartPole-v1, by name; one number each.

    Attributes:
        state: float32 (4,): position in m, velocity in m/s, angle in rad, angular velocity in rad/s.
        t: steps taken in this episode.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self.reset(np.zeros(4))

    def reset(self, state: np.ndarray) -> np.ndarray:
        """Start an episode in the given state (4,); returns the observation, float32 (4,) or (2,)."""
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
        """Observation of the present state, float32: the state (4,); without ``observe_velocity`` position and angle (2,)."""
        position, _, angle, _ = self.state
        return self.state.copy() if self._params["observe_velocity"] else np.array([position, angle])

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        """Push left (0) or right (1) for one step.

        The equations of motion are those of R. Florian, "Correct equations for the dynamics of the cart-pole system"
        (2005), without friction, integrated by Euler's method with the velocities at the start of the step.

        Returns:
            obs: float32 (4,) or (2,), after the step.
            reward: 1; with ``sutton_barto_reward`` 0, or -1 in the step that terminates.
            terminated: the cart is too far from the middle or the pole leans too far, or either is NaN.
            truncated: the time limit is reached.
        """
        p = self._params
        x, x_dot, angle, angle_dot = self.state.astype(np.float64)
        force = p["force_mag"] if action == 1 else -p["force_mag"]
        pole, length, mass = p["masspole"], p["length"], p["masscart"] + p["masspole"]
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (force + pole * length * angle_dot**2 * sine) / mass
        angle_acc = (p["gravity"] * sine - cosine * push) / (length * (4 / 3 - pole * cosine**2 / mass))
        x_acc = push - pole * length * angle_acc * cosine / mass
        change = p["tau"] * np.array([x_dot, x_acc, angle_dot, angle_acc])
        self.state = (np.array([x, x_dot, angle, angle_dot]) + change).astype(np.float32)
        self.t += 1

        terminated = not (abs(self.state[0]) <= FARTHEST and abs(self.state[2]) <= STEEPEST)
        limit = p["max_episode_steps"]
        truncated = bool(limit > 0 and self.t >= limit)
        reward = (-1.0 if terminated else 0.0) if p["sutton_barto_reward"] else 1.0
        return self.observe(), reward, terminated, truncated
