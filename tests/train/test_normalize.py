"""Running statistics, compared with statistics of all samples at once."""

import pytest
import torch

from gpu_vecenv.train.returns.normalize import RewardNorm, RunningNorm


def test_running_statistics_equal_those_of_all_valid_samples():
    g = torch.Generator().manual_seed(0)
    norm, kept = RunningNorm((3,)), []
    for batch in range(5):
        samples = torch.randn(7, 11, 3, generator=g) * 4 + 100 * batch
        valid = torch.rand(7, 11, generator=g) < 0.6
        valid[3] = False  # a step without a single valid row
        norm.update(samples, valid)
        kept.append(samples[valid])
    kept = torch.cat(kept).double()
    assert norm.count.item() == len(kept)
    torch.testing.assert_close(norm.mean, kept.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(norm.var, kept.var(0, correction=0), rtol=1e-5, atol=1e-5)
    want = ((kept - kept.mean(0)) / kept.std(0, correction=0)).clamp(-10, 10).float()
    torch.testing.assert_close(norm(kept.float()), want, rtol=1e-4, atol=1e-4)


def test_masked_samples_do_not_count_even_if_nan():
    samples, valid = torch.randn(4, 6, 2), torch.rand(4, 6) < 0.5
    clean, dirty = RunningNorm((2,)), RunningNorm((2,))
    clean.update(samples, valid)
    dirty.update(torch.where(valid.unsqueeze(-1), samples, torch.nan), valid)
    assert torch.equal(clean.mean, dirty.mean)
    assert torch.equal(clean.var, dirty.var)


def test_an_update_without_valid_samples_changes_nothing():
    norm = RunningNorm((2,))
    norm.update(torch.randn(3, 4, 2), torch.zeros(3, 4, dtype=torch.bool))
    assert torch.equal(norm(torch.tensor([[1.0, -2.0]])), torch.tensor([[1.0, -2.0]]))


def test_reward_scale_is_the_deviation_of_discounted_returns():
    g = torch.Generator().manual_seed(1)
    norm, gamma = RewardNorm(2, 0.9), 0.9
    returns, running = [], [0.0, 0.0]
    for _ in range(4):
        reward = torch.randn(6, 2, generator=g)
        cut = torch.rand(6, 2, generator=g) < 0.2
        scaled = norm(reward, torch.ones(6, 2, dtype=torch.bool), cut)
        for t in range(6):
            for n in range(2):
                running[n] = running[n] * gamma + reward[t, n].item()
                returns.append(running[n])
                running[n] = 0.0 if cut[t, n] else running[n]
        deviation = torch.tensor(returns).std(correction=0)
        torch.testing.assert_close(scaled, reward / deviation, rtol=1e-4, atol=1e-5)


def test_reward_norm_ignores_dead_rows():
    reward, valid = torch.randn(8, 3), torch.ones(8, 3, dtype=torch.bool)
    valid[4:, 1] = False
    cut = torch.zeros(8, 3, dtype=torch.bool)
    a, b = RewardNorm(3, 0.9), RewardNorm(3, 0.9)
    scaled = a(reward, valid, cut)
    other = b(torch.where(valid, reward, 1e6), valid, cut)
    assert torch.equal(scaled[valid], other[valid])
    assert a.norm.var.item() == pytest.approx(b.norm.var.item())
    assert torch.equal(a.running_return, b.running_return)
