"""No function of the room `returns` reads a value on the host, and none launches many small kernels."""

import pytest
import torch
from dispatched import idle_kernels, operations

from gpu_vecenv.train.returns.episodes import EpisodeStats
from gpu_vecenv.train.returns.gae import gae
from gpu_vecenv.train.returns.masks import transition_masks
from gpu_vecenv.train.returns.normalize import RewardNorm, RunningNorm


def everything(steps):
    """Call all functions on the default device, and return the numbers of the advantages and of the episodes."""
    reward, flags = torch.zeros(steps, 4, 3), torch.zeros(steps, 4, 3, dtype=torch.bool)
    masks = transition_masks(flags[0], flags, flags, flags, flags)
    rewards = RewardNorm((4, 3), 0.9).to(reward.device)
    rewards.update(reward, masks.valid, masks.episode_end)
    found = gae(reward, torch.zeros(steps + 1, 4, 3), reward, masks, 0.9, 0.8, rewards.scale)
    means = EpisodeStats((4, 3)).to(reward.device).update(reward, flags, masks.valid)
    norm = RunningNorm((2,)).to(reward.device)
    norm.update(torch.zeros(steps, 4, 3, 2), masks.valid)
    assert found.advantage.shape == reward.shape
    return means


@pytest.mark.parametrize("steps", [1, 12])
def test_the_host_reads_nothing(monkeypatch, steps):
    """On the device "meta" tensors have shapes and no values, so a read raises an error."""
    idle_kernels(monkeypatch)
    with torch.device("meta"):
        means = everything(steps)
    assert means.shape == (4,) and means.dtype == torch.float32
    with pytest.raises(RuntimeError, match="meta"):
        means[0].item()


def test_operations_are_few_and_do_not_grow_with_steps():
    assert operations(lambda: everything(3)) == operations(lambda: everything(300)) < 40
