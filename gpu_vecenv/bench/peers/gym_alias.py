"""Names that older packages import and that Gymnasium and NumPy no longer have; for a peer's own process only."""

from __future__ import annotations

import importlib
import sys

import numpy as np

MODULES = ("spaces", "error", "utils", "envs", "envs.classic_control") + tuple(
    f"envs.classic_control.{name}" for name in ("cartpole", "acrobot", "mountain_car", "pendulum", "continuous_mountain_car")
)


def alias_gym() -> None:
    """Let ``import gym`` find gymnasium if gym is missing, and make ``numpy.row_stack`` the same as ``vstack``."""
    if not hasattr(np, "row_stack"):
        vars(np)["row_stack"] = np.vstack
    try:
        importlib.import_module("gym")
    except ImportError:
        sys.modules["gym"] = importlib.import_module("gymnasium")
        sys.modules.update({f"gym.{name}": importlib.import_module(f"gymnasium.{name}") for name in MODULES})
