"""The scale of continuous actions."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn


class BoxScale(nn.Module):
    """Converts actions between an env's units and normalised units, in which finite bounds are -1 and 1.

    A number of an action without two finite bounds, or with equal bounds, has the same value in both units.
    """

    centre: Tensor
    half_width: Tensor

    def __init__(self, space: Box):
        """Read the bounds.

        Args:
            space: one agent's actions, with the shape (k,).
        """
        super().__init__()
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)  # float32 may overflow in the difference
        bounded = np.isfinite(low) & np.isfinite(high) & (low < high)
        low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
        # The spaces of the env determine these, so they are no part of a checkpoint.
        self.register_buffer("centre", torch.tensor((high + low) / 2, dtype=torch.float32, device="cpu"), persistent=False)
        self.register_buffer("half_width", torch.tensor((high - low) / 2, dtype=torch.float32, device="cpu"), persistent=False)

    def to_env(self, action: Tensor) -> Tensor:
        """Return actions in the env's units, float32 (..., k)."""
        return self.centre + self.half_width * action

    def to_env_(self, action: Tensor) -> Tensor:
        """Change actions, float32 (..., k), to the env's units and return them."""
        return action.mul_(self.half_width).add_(self.centre)

    def to_normalized(self, action: Tensor) -> Tensor:
        """Return actions in normalised units, float32 (..., k)."""
        return (action - self.centre) / self.half_width
