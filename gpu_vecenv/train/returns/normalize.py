"""Running mean and deviation on the device; masked rows are ignored."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gpu_vecenv.errors import ShapeError
from gpu_vecenv.train.returns.scan import continues, scan
from gpu_vecenv.train.returns.sums import fixed_sum

MAX_CHUNK_ROWS = 1 << 18
"""Most rows of one merge, unless one step has more; bounds temporary memory."""

MAX_REWARD = 10.0
"""Scaled rewards are clipped to [-MAX_REWARD, MAX_REWARD]."""


class RunningNorm(nn.Module):
    """Mean and variance of all samples so far.

    The statistics are buffers, so ``state_dict`` holds them. They are float64, so that late samples of a long run still count.
    """

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
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        # float32 numbers of forward(), which follow from the statistics, so a checkpoint does not hold them.
        for name in ("offset", "scale", "shift"):
            self.register_buffer(name, torch.zeros(shape), persistent=False)
        self._prepare()
        self.register_load_state_dict_post_hook(_prepare_loaded)

    @torch.no_grad()
    def update(self, samples: Tensor, valid: Tensor) -> None:
        """Update the statistics with samples.

        Args:
            samples: float32 (T, ..., *shape), merged MAX_CHUNK_ROWS rows at a time.
            valid: bool (T, ...), False for samples to leave out (they may hold anything, NaN included).

        Raises:
            ShapeError: the shapes do not fit each other.
        """
        expected = (*valid.shape, *self.mean.shape)
        if samples.shape != expected or valid.dim() == 0:
            raise ShapeError(f"samples: expected shape {expected}, got {tuple(samples.shape)}")
        steps = max(1, MAX_CHUNK_ROWS // max(1, valid[0].numel()))
        for chunk, chunk_valid in zip(samples.split(steps), valid.split(steps), strict=True):
            self._merge(chunk.reshape(chunk_valid.numel(), -1), chunk_valid.reshape(-1, 1))
        self._prepare()

    def _merge(self, samples: Tensor, valid: Tensor) -> None:
        """Merge samples (rows, F), of which those with ``valid`` (rows, 1) count."""
        count = valid.sum().double()
        divisor = count.clamp(min=1.0)
        # The mean comes first, because squares about another point would cancel if the mean is far from 0.
        mean = fixed_sum(torch.where(valid, samples, 0.0)) / divisor
        var = fixed_sum(torch.where(valid, samples.double() - mean, 0.0).square()) / divisor
        mean, var = mean.view_as(self.mean), var.view_as(self.var)

        # Chan et al. 1979, the update for two sets A (so far) and B (new), divided by the number of samples:
        #   mean = mean_A + (mean_B - mean_A) n_B / n
        #   var = var_A n_A / n + var_B n_B / n + (mean_B - mean_A)^2 n_A n_B / n^2
        total = self.count + count
        share = count / total.clamp(min=1.0)
        shift = mean - self.mean
        self.var.copy_(self.var * (1.0 - share) + var * share + shift * shift * share * (1.0 - share))
        self.mean.add_(shift * share)
        self.count.copy_(total)

    def std(self) -> Tensor:
        """Return the deviation, float32, never below 1e-4."""
        return self.var.clamp(min=1e-8).sqrt().float()

    def forward(self, samples: Tensor) -> Tensor:
        """Shift by the mean, divide by the deviation, clip; float32, same shape as ``samples``."""
        own: dict[str, Any] = self._buffers  # a module finds its attributes slowly
        shifted = samples - own["offset"]
        return torch.addcmul(own["shift"], shifted, own["scale"]).clamp_(-self.clip, self.clip)

    @torch.no_grad()
    def _prepare(self) -> None:
        """Compute the numbers of ``forward()``: (x - mean) / std = (x - offset) scale + shift.

        ``offset`` is the mean in float32, and ``shift`` makes up for its rounding.
        """
        self.offset.copy_(self.mean)
        self.scale.copy_(1.0 / self.std())
        self.shift.copy_((self.offset.double() - self.mean) * self.scale)


def _prepare_loaded(norm: RunningNorm, keys: object) -> None:
    """Compute the numbers of ``forward()`` after statistics were loaded."""
    norm._prepare()


class RewardNorm(nn.Module):
    """Divides rewards by the deviation of the running discounted return, so that their unit has no effect.

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
        self.register_buffer("running_return", torch.zeros(shape))

    @torch.no_grad()
    def forward(self, reward: Tensor, valid: Tensor, cut: Tensor) -> Tensor:
        """Update the statistics with a rollout's rewards and return the scaled rewards.

        Args:
            reward: float32 (T, ...).
            valid: bool (T, ...), False for transitions to leave out; their rewards may hold anything.
            cut: bool (T, ...), True where the row's episode ended with this step.

        Returns:
            float32 (T, ...), within [-MAX_REWARD, MAX_REWARD]; 0 where not valid.
        """
        reward = torch.where(valid, reward, 0.0)
        ended = cut | ~valid
        # R_t = r_t + gamma R_{t-1}, from 0 in each episode
        returns = scan(reward, self.gamma * continues(ended), initial=self.running_return)
        self.running_return.copy_(torch.where(ended[-1], 0.0, returns[-1]))
        self.norm.update(returns, valid)
        # r_t / std(R)
        return (reward / self.norm.std()).clamp(-MAX_REWARD, MAX_REWARD)
