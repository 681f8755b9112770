"""Running statistics, compared with NumPy's statistics of all samples at once."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_vecenv.errors import ArrayTypeError, ShapeError
from gpu_vecenv.train.returns.normalize import RewardNorm, RunningNorm
from gpu_vecenv.train.returns.scan import MAX_REWARD, advantages


def random_batches(seed, lead, shape, offset, deviation, count):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        samples = (torch.randn(*lead, *shape, generator=g, dtype=torch.float64) * deviation + offset).float()
        yield samples, torch.rand(lead, generator=g) < 0.6


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    lead=st.sampled_from([(1,), (50,), (7, 11), (5, 3, 4), (3, 1)]),
    shape=st.sampled_from([(), (1,), (3,), (2, 3, 2)]),
    scale=st.sampled_from([(0.0, 1.0), (1e4, 0.1), (1e6, 10.0), (-1e6, 1.0), (1e-3, 1e-6), (0.0, 1e12)]),
    count=st.integers(1, 3),
)
def test_running_statistics_equal_those_of_all_valid_samples(seed, lead, shape, scale, count):
    norm, kept = RunningNorm(shape), np.empty((0, *shape))
    for samples, valid in random_batches(seed, lead, shape, *scale, count):
        norm.update(torch.where(valid.reshape(*lead, *(1 for _ in shape)), samples, torch.nan), valid)
        kept = np.concatenate((kept, samples[valid].double().numpy()))
    assert norm.count.item() == len(kept)
    if len(kept):
        np.testing.assert_allclose(norm.mean, kept.mean(0), rtol=1e-12, atol=1e-12 * scale[1])
        np.testing.assert_allclose(norm.var, kept.var(0), rtol=1e-9, atol=1e-12 * scale[1])


def test_samples_are_shifted_scaled_and_clipped():
    norm = RunningNorm((2,), clip=3.0)
    norm.update(torch.tensor([[1.0, 10.0], [5.0, 10.0]]), torch.ones(2, dtype=torch.bool))
    got = norm(torch.tensor([[5.0, 10.0], [99.0, 10.00005]]))
    torch.testing.assert_close(got, torch.tensor([[1.0, 0.0], [3.0, 0.5]]), atol=0.02, rtol=0.0)


def test_numbers_are_clipped_at_ten_deviations():
    norm = RunningNorm(())
    norm.update(torch.tensor([-2.0, 2.0]), torch.ones(2, dtype=torch.bool))
    torch.testing.assert_close(norm(torch.tensor([-22.0, -18.0, 18.0, 22.0])), torch.tensor([-10.0, -9.0, 9.0, 10.0]))


def test_a_mean_between_two_float32_numbers_is_subtracted():
    """Two neighbours of float32, whose mean has no float32."""
    norm, samples = RunningNorm(()), torch.tensor([2.0**20, 2.0**20 + 0.125])
    norm.update(samples, torch.ones(2, dtype=torch.bool))
    torch.testing.assert_close(norm(samples), torch.tensor([-1.0, 1.0]))


def test_an_update_without_valid_samples_changes_nothing():
    norm, none = RunningNorm((2,)), torch.zeros(3, 4, dtype=torch.bool)
    norm.update(torch.full((3, 4, 2), torch.nan), none)
    assert torch.equal(norm(torch.tensor([[1.0, -2.0]])), torch.tensor([[1.0, -2.0]]))
    norm.update(torch.randn(3, 4, 2), ~none)
    before = {name: x.clone() for name, x in norm.state_dict().items()}
    norm.update(torch.full((3, 4, 2), torch.nan), none)
    assert all(torch.equal(x, before[name]) for name, x in norm.state_dict().items())


def test_samples_of_another_shape_are_refused():
    with pytest.raises(ShapeError, match=r"samples: expected shape \(3, 4, 2\), got \(3, 4, 1\)"):
        RunningNorm((2,)).update(torch.zeros(3, 4, 1), torch.ones(3, 4, dtype=torch.bool))


def test_samples_of_another_dtype_are_refused():
    with pytest.raises(ArrayTypeError, match="expected torch.float32 and torch.bool, got torch.float64 and torch.bool"):
        RunningNorm((2,)).update(torch.zeros(3, 2, dtype=torch.float64), torch.ones(3, dtype=torch.bool))


def test_loaded_statistics_normalise_with_the_same_bits():
    first, second = RunningNorm((5,)), RunningNorm((5,))
    samples = next(random_batches(3, (400,), (5,), 1e3, 2.0, 1))[0]
    first.update(samples, torch.ones(400, dtype=torch.bool))
    second.load_state_dict(first.state_dict())
    for name in ("offset", "scale", "shift"):
        assert torch.equal(getattr(first, name), getattr(second, name)), name
    np.testing.assert_allclose(first.scale, 1.0 / samples.double().std(0, correction=0), rtol=1e-6)


def scaled_by(norm, reward, valid, episode_end):
    """Return the rewards that an update with these statistics uses."""
    norm.update(reward, valid, episode_end)
    value = torch.zeros(len(reward) + 1, *reward.shape[1:])
    return advantages(reward, value, None, (valid, episode_end, episode_end & False), 0.0, 0.0, norm.scale).advantage


@pytest.mark.parametrize("shape", [(2,), (1, 2)])
def test_reward_scale_is_the_deviation_of_discounted_returns(shape):
    """Across rollouts, with ends of episodes, and with agents that leave; what they would get later is NaN."""
    g = torch.Generator().manual_seed(1)
    norm, gamma = RewardNorm(shape, 0.9), 0.9
    returns, running, living = [], [0.0, 0.0], [True, True]
    for _ in range(4):
        reward, chance = torch.randn(6, 2, generator=g), torch.rand(2, 6, 2, generator=g)
        ended, died = chance[0] < 0.2, chance[1] < 0.1
        valid = torch.ones(6, 2, dtype=torch.bool)
        for t in range(6):
            for n in range(2):
                valid[t, n] = living[n]
                if living[n]:
                    running[n] = running[n] * gamma + reward[t, n].item()
                    returns.append(running[n])
                living[n] = bool(ended[t, n] or (living[n] and not died[t, n]))
                running[n] = 0.0 if ended[t, n] or died[t, n] else running[n]
        slabs = (torch.where(valid, reward, torch.nan), valid, ended | died)
        scaled = scaled_by(norm, *(x.reshape(6, *shape) for x in slabs)).reshape(6, 2)
        want = reward[valid].double().numpy() / np.std(returns)
        np.testing.assert_allclose(scaled[valid], want, rtol=1e-5)
        assert (scaled[~valid] == 0.0).all()
        np.testing.assert_allclose(norm.running_return.flatten(), running, atol=1e-5)


def test_large_rewards_are_clipped():
    reward = torch.zeros(500, 2)
    reward[7] = torch.tensor([-1.0, 1.0])
    every = torch.ones(500, 2, dtype=torch.bool)
    scaled = scaled_by(RewardNorm(2, 0.0), reward, every, ~every)
    assert reward.std().item() < 0.1  # unclipped rewards would be beyond 10
    assert scaled[7].tolist() == [-MAX_REWARD, MAX_REWARD]
