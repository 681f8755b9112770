"""Means and variances by kernels, compared with NumPy's."""

import numpy as np
import pytest
import torch

from gpu_vecenv.train.returns.moments import DEPTH, ITEMS, Moments, merge, moments


def assert_moments(found, kept, scale=1.0):
    assert found.num_samples.item() == len(kept)
    if len(kept):
        np.testing.assert_allclose(found.mean, kept.mean(0), rtol=1e-12, atol=1e-12 * scale)
        np.testing.assert_allclose(found.var, kept.var(0), rtol=1e-9, atol=1e-12 * scale**2)
    else:
        assert not found.mean.any() and not found.var.any()


@pytest.mark.parametrize("features", [1, 2, 3, 16, 17, 71, 128, 300])
@pytest.mark.parametrize("rows", [0, 1, DEPTH * ITEMS, 2 * DEPTH * ITEMS + 5])
def test_moments_are_those_of_numpy(rows, features):
    """Several tiles and groups of features, some of them not full; the mean is large beside the deviation."""
    rows = min(rows, 3_000_000 // features)
    g = torch.Generator().manual_seed(rows + features)
    samples = torch.randn(rows, features, generator=g) * torch.arange(1, features + 1) + 1e4
    valid = torch.rand(rows, generator=g) < 0.7
    found = moments(torch.where(valid.unsqueeze(1), samples, torch.nan), valid)
    assert_moments(found, samples[valid].double().numpy(), 1e4)


def test_tiles_without_samples_add_nothing():
    valid = torch.zeros(20_000, dtype=torch.bool)
    samples = torch.full((20_000, 1), torch.nan)
    assert_moments(moments(samples, valid), np.empty((0, 1)))
    valid[19_000] = True
    samples[19_000] = 3.0
    assert_moments(moments(samples, valid), np.full((1, 1), 3.0))


def test_features_may_lie_apart():
    samples = torch.randn(2, 5000, generator=torch.Generator().manual_seed(1))
    valid = torch.ones(5000, dtype=torch.bool)
    assert_moments(moments(samples.t(), valid), samples.t().double().numpy())
    assert_moments(moments(samples.t()[::2], valid[::2]), samples.t()[::2].double().numpy())


@pytest.mark.parametrize("rows", [3, 700])
def test_steps_may_lie_apart(rows):
    """Rows of some agents of a step have a gap before those of the next one. The bits are those of a copy."""
    slab = torch.randn(40, rows + 5, 17, generator=torch.Generator().manual_seed(3))
    part, valid = slab[:, 2:-3], torch.rand(40 * rows, generator=torch.Generator().manual_seed(4)) < 0.7
    found, copied = moments(part, valid), moments(part.flatten(0, 1), valid)
    assert all(torch.equal(x, y) for x, y in zip(found, copied, strict=True))
    assert_moments(found, part.flatten(0, 1)[valid].double().numpy())


@pytest.mark.parametrize("features", [1, 5, 200])
def test_merged_moments_are_those_of_all_samples(features):
    g = torch.Generator().manual_seed(2)
    parts = [torch.randn(rows, features, generator=g) + 10.0 * i for i, rows in enumerate((700, 1, 5000))]
    running = Moments(*(torch.zeros(shape, dtype=torch.float64) for shape in ((features,), (features,), ())))
    for part in parts:
        merge(running, part, torch.ones(len(part), dtype=torch.bool))
    assert_moments(running, torch.cat(parts).double().numpy(), 10.0)
