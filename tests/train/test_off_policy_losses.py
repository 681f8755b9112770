"""Losses of critics and policies by kernels, and their derivatives, equal those of autograd in float64."""

import numpy as np
import pytest
import torch

from gpu_vecenv.train.algorithms.off_policy.losses import actor_loss, critic_loss

DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]


def random_rows(seed, critics, rows, device):
    """Return values (n, R, 1), targets, weights and log-densities (R,) in float32."""
    rng = np.random.default_rng(seed)
    shapes = ((critics, rows, 1), (rows,), (rows,), (rows,))
    values, target, weight, log_prob = (torch.from_numpy(rng.normal(size=shape)).float().to(device) for shape in shapes)
    return values, target, weight.abs(), log_prob


def doubles(*tensors):
    return [x.detach().double().cpu().requires_grad_() for x in tensors]


def assert_near(x, wanted):
    np.testing.assert_allclose(x.cpu().double(), wanted.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("critics, rows", [(1, 1), (2, 7), (3, 700)])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_critics_equal_autograd(critics, rows, scale, device):
    values, target, weight, _ = random_rows(rows, critics, rows, device)
    loss = critic_loss(values, target, weight, 0.3, scale)
    x, y, share = doubles(values, target, weight)
    wanted = 0.3 * (share * (x.squeeze(-1) - y) ** 2).sum()
    (wanted * scale).backward()
    assert_near(loss.loss, wanted)
    assert_near(loss.slopes, x.grad)
    assert_near(loss.mean, (x.squeeze(-1) * share).mean(0).sum() / share.sum())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("critics, rows", [(1, 1), (2, 7), (3, 700)])
@pytest.mark.parametrize("soft", [False, True])
def test_policies_equal_autograd(critics, rows, soft, device):
    values, _, weight, log_prob = random_rows(rows, critics, rows, device)
    alpha = torch.tensor(0.7, device=device) if soft else None
    loss = actor_loss(values, weight, 4.0, alpha, log_prob if soft else None)
    x, share, density = doubles(values, weight, log_prob)
    value = x.squeeze(-1).amin(0) if soft else x[0, :, 0]
    wanted = (share * ((0.7 * density if soft else 0.0) - value)).sum()
    (wanted * 4.0).backward()
    assert_near(loss.loss, wanted)
    assert_near(loss.slopes, x.grad)
    assert_near(loss.mean, -(share * density).sum() if soft else torch.zeros(()))
    if soft:
        assert_near(loss.log_prob_slopes, density.grad)
