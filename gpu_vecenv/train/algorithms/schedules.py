"""Hyperparameters that change during a run; computed on the host, so they cost no host sync."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from gpu_vecenv.train.config import PPOConfig


class Scalars(NamedTuple):
    """Hyperparameters of one update that may differ from those of the last one."""

    learning_rate: float
    """Adam's step size. With the adaptive schedule its start, which the algorithm changes by the KL divergence."""
    entropy_coef: float
    """Weight of the entropy bonus."""
    clip_coef: float
    """Range of the ratio around 1."""


class DeviceScalars(NamedTuple):
    """``Scalars`` on the device, float32 () each."""

    learning_rate: Tensor
    """Adam's step size."""
    entropy_coef: Tensor
    """Weight of the entropy bonus."""
    clip_coef: Tensor
    """Half-width of the range that the ratio is clipped to."""


def scalars_at(ppo: PPOConfig, steps: float, schedule_steps: float) -> Scalars:
    """Return the hyperparameters after some steps of a run.

    Args:
        ppo: hyperparameters of a policy.
        steps: steps done, summed over worlds.
        schedule_steps: steps after which end values are reached. From there on they stay, so a run that is extended goes on with
            the rates that it had reached.
    """
    progress = steps / schedule_steps
    end_rate = 0.0 if ppo.learning_rate_schedule == "linear" else ppo.learning_rate
    return Scalars(
        linear(ppo.learning_rate, end_rate, progress),
        _entropy_coef(ppo, steps, progress),
        linear(ppo.clip_coef, ppo.clip_coef_final, progress),
    )


def _entropy_coef(ppo: PPOConfig, steps: float, progress: float) -> float:
    if ppo.entropy_schedule is None:
        return linear(ppo.entropy_coef, ppo.entropy_coef_final, progress)
    start, weight = 0, ppo.entropy_coef
    for end, reached in ppo.entropy_schedule:
        if steps < end:
            return linear(weight, reached, (steps - start) / (end - start))
        start, weight = end, reached
    return weight


def linear(start: float, end: float | None, progress: float) -> float:
    """Return the point ``progress`` (0 to 1, clamped) of the way from ``start`` to ``end``; None stays at ``start``."""
    return start if end is None else start + (end - start) * min(max(progress, 0.0), 1.0)
