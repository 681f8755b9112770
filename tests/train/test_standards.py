"""Means and deviations of minibatches by a kernel, compared with NumPy's."""

import numpy as np
import pytest
import torch

from gpu_vecenv.train.returns.standards import standards


def dealt_numbers(places, minibatches=3):
    """Return numbers of 4,000 samples, with a mean that is large beside the deviation, and minibatches with empty places."""
    g = torch.Generator().manual_seed(places)
    numbers = torch.randn(4000, generator=g) + 1e3
    dealt = torch.randint(4000, (2, minibatches, places), dtype=torch.int32, generator=g)
    return numbers, torch.where(torch.rand(dealt.shape, generator=g) < 0.8, dealt, -1)


@pytest.mark.parametrize("places", [1, 511, 5000])
def test_standards_are_those_of_numpy(places):
    numbers, dealt = dealt_numbers(places)
    found = standards(numbers, dealt).double().numpy()
    for samples, (mean, factor) in zip(dealt.flatten(0, 1), found.reshape(-1, 2), strict=True):
        kept = numbers[samples[samples >= 0].long()].double().numpy()
        kept = kept if len(kept) else np.zeros(1)
        np.testing.assert_allclose(mean, kept.mean(), rtol=1e-6)
        np.testing.assert_allclose(factor, 1 / (kept.std() + 1e-8), rtol=1e-6)


def test_numbers_may_lie_apart():
    numbers, dealt = dealt_numbers(700)
    apart = torch.stack((torch.full_like(numbers, torch.nan), numbers), 1)
    assert torch.equal(standards(apart[:, 1], dealt), standards(numbers, dealt))


def test_samples_may_be_left_out():
    numbers, dealt = dealt_numbers(700)
    counts = torch.rand(4000, generator=torch.Generator().manual_seed(1)) < 0.3
    numbers = torch.where(counts, numbers, torch.nan)
    fewer = torch.where(counts[dealt.clamp(min=0).long()], dealt, -1)
    assert torch.equal(standards(numbers, dealt, counts), standards(numbers, fewer))


def test_nan_gives_nan_in_its_minibatch_alone():
    numbers, dealt = dealt_numbers(700)
    dealt[dealt == 5] = -1
    dealt[0, 1, 3], numbers[5] = 5, torch.nan
    nan = standards(numbers, dealt).isnan()
    assert nan[0, 1].all() and nan.sum() == 2


@pytest.mark.gpu
@pytest.mark.parametrize("places", [1, 511, 5000])
def test_standards_have_the_same_bits_on_a_gpu(places):
    numbers, dealt = dealt_numbers(places)
    assert torch.equal(standards(numbers.cuda(), dealt.cuda()).cpu(), standards(numbers, dealt))
