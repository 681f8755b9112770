"""Returns and lengths of finished episodes, on the device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from gpu_vecenv.train.returns.moments import moments
from gpu_vecenv.train.returns.scan import episode_sums


class EpisodeMeans(NamedTuple):
    """Means over finished episodes, each a 0-d tensor of float32, NaN if no episode counts."""

    mean_return: Tensor
    """Undiscounted return of an agent, over the episodes that ended in the rollout."""
    mean_length: Tensor
    """Length in steps of the world's episode, over the same episodes."""
    recent_return: Tensor
    """Return over the last episodes that ended, in this rollout or before."""
    recent_length: Tensor
    """Length over the same episodes."""


class EpisodeStats(nn.Module):
    """Sums the rewards of each row of one policy, and averages the sums when episodes end.

    An episode counts once for each row whose agent took part in it. The return of an agent that leaves early ends there; its
    episode ends with that of its world. The sums and the last episodes are buffers, so that a checkpoint loses nothing.
    """

    totals: Tensor
    recent: Tensor
    num_recent: Tensor

    def __init__(self, shape: int | tuple[int, ...], window: int = 100):
        """Start with empty episodes.

        Args:
            shape: shape of the rewards of one step, (n,) or n for n rows.
            window: number of last episodes to average over.
        """
        super().__init__()
        # Three sums of each row's episode so far: return, steps, and steps that the agent took part in.
        self.register_buffer("totals", torch.zeros(3, *((shape,) if isinstance(shape, int) else shape)))
        self.register_buffer("recent", torch.zeros(2, window))
        self.register_buffer("num_recent", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def update(self, reward: Tensor, finished: Tensor, valid: Tensor) -> EpisodeMeans:
        """Add a rollout.

        Args:
            reward: float32 (T, ...).
            finished: bool (T, ...), the episode of the row's world ended in the step.
            valid: bool (T, ...), the agent took part in the step; rewards of other steps may hold anything.
        """
        sums, finished = episode_sums(reward, valid, finished, self.totals)
        ended, counted = sums.flatten(1), finished.flatten()
        self._remember(ended, counted)
        found = moments(ended.t(), counted)
        means = (found.mean / (found.num_samples > 0.0)).float()
        held = torch.arange(self.recent.shape[1], device=counted.device) < self.num_recent
        recent = torch.where(held, self.recent, 0.0).sum(1) / self.num_recent
        return EpisodeMeans(means[0], means[1], recent[0], recent[1])

    def _remember(self, ended: Tensor, counted: Tensor) -> None:
        """Put episodes at the front of ``recent``, which begins with the one that ended last.

        Args:
            ended: float32 (2, T * n), return and length, in order of time and row.
            counted: bool (T * n), an episode ended here.
        """
        window = self.recent.shape[1]
        order = counted.cumsum(0, dtype=torch.int32)  # the number of an episode, from 1
        total = order[-1]
        newest = torch.arange(window, dtype=torch.int32, device=counted.device)
        # Episode number total - j is at the first place whose number is that large.
        place = torch.searchsorted(order, total - newest).clamp(max=len(order) - 1)
        new = ended[:, place]
        old = self.recent[:, (newest - total).clamp(min=0)]
        self.recent.copy_(torch.where(newest < total, new, old))
        self.num_recent.copy_((self.num_recent + total).clamp(max=window))
