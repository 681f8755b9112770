"""Running mean and deviation on the device; masked rows are ignored."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gpu_vecenv.errors import ArrayTypeError, ShapeError
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.returns.moments import Moments, Normal, merge
from gpu_vecenv.train.returns.scan import discounted_returns


class RunningNorm(nn.Module):
    """Mean and variance of all samples so far.

    The statistics are buffers, so ``state_dict`` holds them. They are float64, so that late samples of a long run still count.

    Attributes:
        processes: processes whose samples count, see ``share_statistics()``; None: this one alone.
    """

    processes: Processes | None = None

    mean: Tensor
    var: Tensor
    count: Tensor
    offset: Tensor
    scale: Tensor
    shift: Tensor

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0):
        """Start from mean 0 and variance 1.

        Args:
            shape: shape of one sample.
            clip: normalised values are clipped to ``[-clip, clip]``.
        """
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64, device="cpu"))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64, device="cpu"))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64, device="cpu"))
        # float32 numbers of forward(), which follow from the statistics, so a checkpoint does not hold them.
        for name, value in (("offset", 0.0), ("scale", 1.0), ("shift", 0.0)):
            self.register_buffer(name, torch.full(shape, value, dtype=torch.float32, device="cpu"), persistent=False)
        self.register_load_state_dict_post_hook(_prepare_loaded)

    @torch.no_grad()
    def update(self, samples: Tensor, valid: Tensor) -> None:
        """Update the statistics with samples.

        Args:
            samples: float32 (T, ..., *shape).
            valid: bool (T, ...), False for samples to leave out (they may hold anything, NaN included).

        Raises:
            ShapeError: the shapes do not fit each other.
            ArrayTypeError: the samples are not float32, or ``valid`` is not bool.
        """
        expected = (*valid.shape, *self.mean.shape)
        if samples.shape != expected or valid.dim() == 0:
            raise ShapeError(f"samples: expected shape {expected}, got {tuple(samples.shape)}")
        if samples.dtype != torch.float32 or valid.dtype != torch.bool:
            raise ArrayTypeError(f"samples: expected torch.float32 and torch.bool, got {samples.dtype} and {valid.dtype}")
        # Rows of a policy with some agents of a step have gaps between steps: over all steps they would be copied.
        steps = len(valid)
        self._merge(samples.reshape(steps, valid.numel() // max(1, steps), self.mean.numel()), valid.reshape(-1))

    def _merge(self, samples: Tensor | None = None, valid: Tensor | None = None) -> None:
        running, normal = Moments(self.mean, self.var, self.count), Normal(self.offset, self.scale, self.shift)
        merge(running, samples, valid, normal, self.processes)

    def forward(self, samples: Tensor) -> Tensor:
        """Shift by the mean, divide by the deviation, clip; float32, same shape as ``samples``."""
        buffers: dict[str, Any] = self._buffers  # a module finds its attributes slowly
        shifted = samples - buffers["offset"]
        return torch.addcmul(buffers["shift"], shifted, buffers["scale"]).clamp_(-self.clip, self.clip)


def share_statistics(module: nn.Module, processes: Processes | None) -> None:
    """Make the running statistics in a module those of the samples of all processes."""
    for each in module.modules():
        if isinstance(each, RunningNorm):
            each.processes = processes


def _prepare_loaded(norm: RunningNorm, keys: object) -> None:
    """Compute the numbers of ``forward()`` after statistics were loaded."""
    norm._merge()


class RewardNorm(nn.Module):
    """Deviation of the running discounted return. Rewards are divided by it, so that their unit has no effect.

    The mean is not subtracted: when episodes differ in length, that would change which policy is best.
    Source: reward scaling in Engstrom et al. 2020, arXiv 2005.12729.
    """

    running_return: Tensor

    def __init__(self, shape: int | tuple[int, ...], gamma: float):
        """Start with zero returns.

        Args:
            shape: shape of the rewards of one step, (n,) or n for n rows.
            gamma: discount per step.
        """
        super().__init__()
        self.gamma = gamma
        self.norm = RunningNorm(())
        self.register_buffer("running_return", torch.zeros(shape, dtype=torch.float32, device="cpu"))

    @property
    def scale(self) -> Tensor:
        """Factor of the rewards, float32 (): one divided by the deviation."""
        return self.norm.scale

    @torch.no_grad()
    def update(self, reward: Tensor, valid: Tensor, episode_end: Tensor) -> None:
        """Update the statistics with a rollout's rewards.

        Args:
            reward: float32 (T, ...).
            valid: bool (T, ...), False for transitions to leave out; their rewards may hold anything.
            episode_end: bool (T, ...), True where the row's episode ended with this step.
        """
        self.norm.update(discounted_returns(reward, valid, episode_end, self.gamma, self.running_return), valid)

    def reset(self) -> None:
        """Forget all rewards."""
        self.load_state_dict(RewardNorm(tuple(self.running_return.shape), self.gamma).state_dict())
