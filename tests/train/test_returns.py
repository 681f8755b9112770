"""No function of the room `returns` lets the host wait for the device."""

import pytest
import torch

from gpu_vecenv.train.returns.episodes import EpisodeStats
from gpu_vecenv.train.returns.gae import gae, next_values, transition_masks
from gpu_vecenv.train.returns.normalize import RewardNorm, RunningNorm


@pytest.mark.parametrize("steps", [1, 12])
def test_the_host_reads_nothing(steps):
    """On the device "meta" tensors have shapes and no values, so a read raises an error."""
    with torch.device("meta"):
        reward, flags = torch.zeros(steps, 4, 3), torch.zeros(steps, 4, 3, dtype=torch.bool)
        masks, alive = transition_masks(flags[0], flags, flags, flags, flags)
        following = next_values(torch.zeros(steps + 1, 4, 3), reward, masks)
        advantage = gae(reward, reward, following, masks, 0.9, 0.8)
        scaled = RewardNorm((4, 3), 0.9)(reward, masks.valid, masks.cut)
        means = EpisodeStats((4, 3)).update(reward, flags, masks.valid)
        norm = RunningNorm((2,))
        norm.update(torch.zeros(steps, 4, 3, 2), masks.valid)
    assert alive.shape == (4, 3)
    assert advantage.shape == scaled.shape == reward.shape
    assert all(mean.shape == () and mean.dtype == torch.float32 for mean in means)
    with pytest.raises(RuntimeError, match="meta"):
        means.mean_return.item()
