"""Returns and lengths of finished episodes, summed on the device."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gpu_vecenv.train.storage.rollout import Rollout


class EpisodeStats(nn.Module):
    """Sums each row's rewards, and averages the sums by policy when episodes end.

    The running sums are buffers, so that a checkpoint taken in the middle of episodes loses nothing.
    """

    episode_return: Tensor
    episode_length: Tensor

    def __init__(self, assignment: Mapping[str, list[slice]], num_rows: int):
        """Start with empty episodes.

        Args:
            assignment: policy name to its rows.
            num_rows: R.
        """
        super().__init__()
        self.assignment = assignment
        self.register_buffer("episode_return", torch.zeros(num_rows))
        self.register_buffer("episode_length", torch.zeros(num_rows))

    @torch.no_grad()
    def update(self, rollout: Rollout) -> dict[str, Tensor]:
        """Add a rollout.

        Returns:
            0-d device tensors, means over the episodes that ended in it, NaN if none did: ``return/POLICY``, the
            undiscounted return of an agent of the policy, and ``episode_length`` in steps.
        """
        finished = rollout.terminated | rollout.truncated
        returns, lengths = torch.zeros_like(self.episode_return), torch.zeros_like(self.episode_length)
        for t in range(rollout.num_steps):
            self.episode_return += rollout.reward[t]
            self.episode_length += 1.0
            for total, running in ((returns, self.episode_return), (lengths, self.episode_length)):
                total += torch.where(finished[t], running, 0.0)
                running.masked_fill_(finished[t], 0.0)
        count = finished.sum(0)
        metrics = {"episode_length": lengths.sum() / count.sum()}
        for name, slices in self.assignment.items():
            total = torch.stack([returns[rows].sum() for rows in slices]).sum()
            metrics[f"return/{name}"] = total / torch.stack([count[rows].sum() for rows in slices]).sum()
        return metrics
