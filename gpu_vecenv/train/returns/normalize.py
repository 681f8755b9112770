"""Running mean and deviation on the device; masked rows are ignored."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningNorm(nn.Module):
    """Mean and variance of all samples so far, merged batch by batch (Chan et al. 1979).

    The statistics are buffers, so ``state_dict`` holds them. They are float64, so that late samples of a long run still count.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

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

    @torch.no_grad()
    def update(self, samples: Tensor, valid: Tensor) -> None:
        """Update the statistics with samples.

        Args:
            samples: float32 (T, n, *shape); merged one step of T at a time, which bounds temporary memory.
            valid: bool (T, n), False for samples to leave out (they may hold anything, NaN included).
        """
        for step_samples, step_valid in zip(samples, valid, strict=True):
            self._merge(step_samples, step_valid)

    def _merge(self, samples: Tensor, valid: Tensor) -> None:
        mask = valid.reshape(valid.shape + (1,) * self.mean.dim())
        new_count = valid.sum().double()
        divisor = new_count.clamp(min=1.0)
        # Moments about the old mean are small numbers, so float32 products lose little precision.
        centred = torch.where(mask, samples - self.mean.float(), 0.0)
        shift = centred.sum(0, dtype=torch.float64) / divisor
        spread = (centred * centred).sum(0, dtype=torch.float64) / divisor - shift * shift
        total = self.count + new_count
        fraction = new_count / total.clamp(min=1.0)
        merged = self.var * (1.0 - fraction) + spread * fraction + shift * shift * fraction * (1.0 - fraction)
        self.var.copy_(merged)
        self.mean.add_(shift * fraction)
        self.count.copy_(total)

    def std(self) -> Tensor:
        """Return the deviation, float32, never below 1e-4."""
        return self.var.clamp(min=1e-8).sqrt().float()

    def forward(self, samples: Tensor) -> Tensor:
        """Shift by the mean, divide by the deviation, clip; float32, same shape as ``samples``."""
        return ((samples - self.mean.float()) / self.std()).clamp(-self.clip, self.clip)


class RewardNorm(nn.Module):
    """Divides rewards by the deviation of the running discounted return, so that their unit has no effect.

    The mean is not subtracted: when episodes differ in length, that would change which policy is best.
    """

    running_return: Tensor

    def __init__(self, num_rows: int, gamma: float):
        """Start with zero returns.

        Args:
            num_rows: rows n whose rewards are scaled.
            gamma: discount per step.
        """
        super().__init__()
        self.gamma = gamma
        self.norm = RunningNorm(())
        self.register_buffer("running_return", torch.zeros(num_rows))

    @torch.no_grad()
    def forward(self, reward: Tensor, valid: Tensor, cut: Tensor) -> Tensor:
        """Update the statistics with a rollout's rewards and return the scaled rewards.

        Args:
            reward: float32 (T, n).
            valid: bool (T, n), False for transitions to leave out.
            cut: bool (T, n), True where the row's episode ended with this step.

        Returns:
            float32 (T, n), within [-10, 10].
        """
        returns = torch.empty_like(reward)
        for t in range(reward.shape[0]):
            torch.add(reward[t], self.running_return, alpha=self.gamma, out=returns[t])
            self.running_return.copy_(returns[t]).masked_fill_(cut[t] | ~valid[t], 0.0)
        self.norm.update(returns, valid)
        return (reward / self.norm.std()).clamp(-10.0, 10.0)
