"""The call between the runner and an algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from torch import Tensor

from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.policies.contract import Actor
from gpu_vecenv.train.storage.samples import Samples


class DeviceScalars(NamedTuple):
    """``Scalars`` on the device: 0-d views of one float32 tensor, which the runner overwrites before each update.

    Their addresses do not change, so a captured graph reads the present values.
    """

    learning_rate: Tensor
    """Adam's step size."""
    entropy_coef: Tensor
    """Weight of the entropy bonus."""
    clip_coef: Tensor
    """Half-width of the range that the ratio is clipped to."""


class Algorithm(ABC):
    """Updates one policy from its samples of a rollout.

    ``update()`` has fixed shapes, does not read the device on the host, and branches on no data, so a CUDA graph can capture it.
    """

    metric_names: tuple[str, ...]
    """Names of the numbers that ``update()`` returns. ``skipped`` counts steps that were left out because a gradient was not
    finite; the runner then stops the run."""

    def actor(self) -> Actor | None:
        """Return what chooses actions in rollouts in place of the policy, or None."""
        return None

    def begin(self, samples: Samples) -> None:  # noqa: B027  (nothing, unless an algorithm overrides it)
        """Prepare the first update of a run, after the policy has observed its first rollout."""

    @abstractmethod
    def update(self, samples: Samples, scalars: DeviceScalars) -> Tensor:
        """Improve the policy.

        Args:
            samples: the policy's samples of a rollout.
            scalars: settings of this update.

        Returns:
            Metrics on the device, float32 (len(metric_names),).
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return all that the next update depends on, but for the policy and the options."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """Restore what ``state_dict()`` returned; ``where`` names the state in errors.

        Raises:
            CheckpointError: the state has another form.
        """

    def options_changed(self, before: PPOConfig) -> None:  # noqa: B027  (nothing, unless an algorithm overrides it)
        """Drop what a loaded state owes to other hyperparameters than those of this run; called after ``load_state_dict()``.

        Args:
            before: hyperparameters of the run that wrote the state; they may be the same.
        """
