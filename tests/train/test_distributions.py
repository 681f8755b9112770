"""Distributions compared with torch.distributions. Draws from them are tested in ``test_draw.py``."""

import pytest
import torch

from gpu_vecenv.train.policies.distributions import Categorical, DiagonalGaussian, MultiCategorical


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def test_categorical_equals_torchs(generator):
    logits = torch.randn(50, 6, generator=generator)
    ours, theirs = Categorical(logits), torch.distributions.Categorical(logits=logits)
    action = torch.randint(6, (50,), generator=generator)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert torch.equal(ours.mode(), theirs.mode)


def test_multi_categorical_equals_torchs_categoricals(generator):
    logits = torch.randn(50, 7, generator=generator)
    ours = MultiCategorical(logits, [3, 4])
    heads = [torch.distributions.Categorical(logits=x) for x in logits.split([3, 4], dim=-1)]
    action = torch.stack([torch.randint(n, (50,), generator=generator) for n in (3, 4)], dim=-1)
    torch.testing.assert_close(
        ours.log_prob(action), heads[0].log_prob(action[:, 0]) + heads[1].log_prob(action[:, 1])
    )
    torch.testing.assert_close(ours.entropy(), heads[0].entropy() + heads[1].entropy())
    assert torch.equal(ours.mode(), torch.stack([h.mode for h in heads], -1))


def test_diagonal_gaussian_equals_torchs_normal(generator):
    mean, log_std = torch.randn(50, 3, generator=generator), torch.tensor([-1.0, 0.0, 0.5])
    ours = DiagonalGaussian(mean, log_std)
    theirs = torch.distributions.Independent(torch.distributions.Normal(mean, log_std.exp()), 1)
    action = torch.randn(50, 3, generator=generator)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


def test_masked_choices_change_nothing_else(generator):
    logits = torch.randn(20_000, 5, generator=generator)
    mask = torch.tensor([True, False, True, True, False]).expand_as(logits)
    masked = Categorical(logits.requires_grad_(), mask)
    assert mask.gather(1, masked.mode().unsqueeze(1)).all()
    small = torch.distributions.Categorical(logits=logits[:, [0, 2, 3]])
    torch.testing.assert_close(masked.entropy(), small.entropy())
    torch.testing.assert_close(masked.log_prob(torch.full((20_000,), 3)), small.log_prob(torch.tensor(2)))
    masked.entropy().sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[:, [1, 4]] == 0).all()


def test_masks_apply_to_several_choices(generator):
    mask = torch.tensor([[False, True, False, False, True]]).expand(100, 5)
    distribution = MultiCategorical(torch.zeros(100, 5), [2, 3], mask)
    assert (distribution.mode() == torch.tensor([1, 2])).all()
    assert (distribution.entropy() == 0.0).all()
