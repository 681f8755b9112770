"""MountainCarContinuous in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel. Arithmetic is float64; the
state is rounded to float32 after each step.
"""

from __future__ import annotations

import numpy as np

from gpu_vecenv.envs.mountain_car.reference import Valley

FLAG = np.float32(0.45)  # position
ARRIVAL = 100.0  # reward
EFFORT = 0.1  # weight of the squared action


class MountainCarContinuousReference(Valley):
    """A car with a throttle. Arguments and attributes: see the base class."""

    flag = FLAG

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """Push with a fraction of the power for one step.

        Args:
            action: float (1,): the fraction, negative to the left. It is clipped to [-1, 1].

        Returns:
            obs: float32 (2,), the state.
            reward: 100 on arrival, minus 0.1 times the square of the action as given.
            terminated: the car is at the flag and fast enough.
            truncated: the time limit is reached.
        """
        part = float(action[0])
        terminated, truncated = self.drive(np.clip(part, -1.0, 1.0) * self._params["power"])
        reward = (ARRIVAL if terminated else 0.0) - EFFORT * part * part
        return self.observe(), reward, terminated, truncated
