"""Hyperparameters that change during a run; computed on the host, so they cost no host sync."""

from __future__ import annotations

from gpu_vecenv.train.config.options import PPOConfig


def linear(start: float, end: float, progress: float) -> float:
    """Return the point ``progress`` (0 to 1, clamped) of the way from ``start`` to ``end``."""
    return start + (end - start) * min(max(progress, 0.0), 1.0)


def learning_rate(config: PPOConfig, progress: float) -> float:
    """Return Adam's step size after the fraction ``progress`` of the run."""
    if config.learning_rate_schedule == "constant":
        return config.learning_rate
    return linear(config.learning_rate, 0.0, progress)


def entropy_coef(config: PPOConfig, progress: float) -> float:
    """Return the weight of the entropy bonus after the fraction ``progress`` of the run."""
    final = config.entropy_coef if config.entropy_coef_final is None else config.entropy_coef_final
    return linear(config.entropy_coef, final, progress)
