"""Means and deviations of minibatches by a kernel, compared with NumPy's."""

import numpy as np
import pytest
import torch

from gpu_vecenv.train.returns.minibatch_moments import minibatch_moments


def shuffled_numbers(places, minibatches=3):
    """Return numbers of 4,000 samples, with a mean that is large beside the deviation, and minibatches with empty places."""
    g = torch.Generator().manual_seed(places)
    numbers = torch.randn(4000, generator=g) + 1e3
    shuffled = torch.randint(4000, (2, minibatches, places), dtype=torch.int32, generator=g)
    return numbers, torch.where(torch.rand(shuffled.shape, generator=g) < 0.8, shuffled, -1)


@pytest.mark.parametrize("places", [1, 511, 5000])
def test_minibatch_moments_are_those_of_numpy(places):
    numbers, shuffled = shuffled_numbers(places)
    found = minibatch_moments(numbers, shuffled).double().numpy()
    for samples, (mean, factor) in zip(shuffled.flatten(0, 1), found.reshape(-1, 2), strict=True):
        kept = numbers[samples[samples >= 0].long()].double().numpy()
        kept = kept if len(kept) else np.zeros(1)
        np.testing.assert_allclose(mean, kept.mean(), rtol=1e-6)
        np.testing.assert_allclose(factor, 1 / (kept.std() + 1e-8), rtol=1e-6)


def test_numbers_may_lie_apart():
    numbers, shuffled = shuffled_numbers(700)
    apart = torch.stack((torch.full_like(numbers, torch.nan), numbers), 1)
    assert torch.equal(minibatch_moments(apart[:, 1], shuffled), minibatch_moments(numbers, shuffled))


def test_samples_may_be_left_out():
    numbers, shuffled = shuffled_numbers(700)
    counts = torch.rand(4000, generator=torch.Generator().manual_seed(1)) < 0.3
    numbers = torch.where(counts, numbers, torch.nan)
    fewer = torch.where(counts[shuffled.clamp(min=0).long()], shuffled, -1)
    assert torch.equal(minibatch_moments(numbers, shuffled, counts), minibatch_moments(numbers, fewer))


def test_nan_gives_nan_in_its_minibatch_alone():
    numbers, shuffled = shuffled_numbers(700)
    shuffled[shuffled == 5] = -1
    shuffled[0, 1, 3], numbers[5] = 5, torch.nan
    nan = minibatch_moments(numbers, shuffled).isnan()
    assert nan[0, 1].all() and nan.sum() == 2


@pytest.mark.gpu
@pytest.mark.parametrize("places", [1, 511, 5000])
def test_minibatch_moments_have_the_same_bits_on_a_gpu(places):
    numbers, shuffled = shuffled_numbers(places)
    assert torch.equal(minibatch_moments(numbers.cuda(), shuffled.cuda()).cpu(), minibatch_moments(numbers, shuffled))
