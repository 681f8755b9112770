"""MountainCarContinuous in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

It is what the kernel is tested against, and is written from the rules, not from the kernel. Arithmetic is float64; the
state is rounded to float32 after each step.
"""

from __future__ import annotations

import numpy as np

from gpu_vecenv.envs.mountain_car.reference import Valley

FLAG = np.float32(0.45)  # position
ARRIVAL = 100.0  # reward
EFFORT = 0.1  # price of the squared action


class MountainCarContinuousReference(Valley):
    """A car with a throttle. Arguments and attributes: see the base class."""

    flag = FLAG

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """Push with a share of the power for one step.

        Args:
            action: float (1,): the share, negative to the left. The car gets what is within [-1, 1] of it.

        Returns:
            obs: float32 (2,), the state.
            reward: 100 on arrival, less 0.1 times the square of the action as given.
            terminated: the car is at the flag and fast enough.
            truncated: the time limit is reached.
        """
        share = float(action[0])
        terminated, truncated = self.drive(np.clip(share, -1.0, 1.0) * self._params["power"])
        reward = (ARRIVAL if terminated else 0.0) - EFFORT * share * share
        return self.observe(), reward, terminated, truncated
