"""Squashed actions by kernels, compared with operations of torch in float64."""

import math

import pytest
import torch
from torch import nn

from gpu_vecenv.train.policies.actor import LOG_STD, gaussian, squashed_outputs
from gpu_vecenv.train.policies.squash import squash


def squashed(mean, log_std, noise):
    """Actions and their log-densities."""
    u = mean + log_std.exp() * noise
    normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    return torch.tanh(u), (normal - 2 * (math.log(2) - u - nn.functional.softplus(-2 * u))).sum(-1)


def numbers_of(rows, entries):
    """Outputs, some of them far beyond the bounds of deviations, and noise."""
    g = torch.Generator().manual_seed(entries)
    outputs = torch.randn(*rows, 2 * entries, generator=g)
    outputs[..., entries:] = outputs[..., entries:] * 3 - 1
    outputs.view(-1, 2 * entries)[0, entries] = 5.0
    return outputs, torch.randn(*rows, entries, generator=g)


@pytest.mark.parametrize("rows, entries", [((300,), 1), ((1,), 3), ((4, 50), 2)])
def test_kernels_equal_torch(rows, entries):
    outputs, noise = numbers_of(rows, entries)
    weights = torch.randn(*rows, entries), torch.randn(rows)
    found, wanted = outputs.clone().requires_grad_(), outputs.double().requires_grad_()
    results = squash(found, noise, *LOG_STD), squashed(*gaussian(wanted), noise.double())
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)
    for action, log_prob in results:
        ((action * weights[0]).sum() + (log_prob * weights[1]).sum()).backward()
    torch.testing.assert_close(found.grad.double(), wanted.grad, rtol=1e-4, atol=1e-4)
    assert (found.grad == 0).any() and (found.grad != 0).any()


def test_a_lone_use_has_derivatives():
    outputs, noise = numbers_of((20,), 2)
    for part in range(2):
        found, wanted = (outputs.clone().requires_grad_() for _ in range(2))
        squash(found, noise, *LOG_STD)[part].sum().backward()
        squashed(*gaussian(wanted), noise)[part].sum().backward()
        torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_kernels_run_on_a_gpu():
    outputs, noise = numbers_of((300,), 2)
    found, wanted = outputs.cuda().requires_grad_(), outputs.clone().requires_grad_()
    for one, other in zip(squashed_outputs(found, noise.cuda()), squash(wanted, noise, *LOG_STD), strict=True):
        assert torch.equal(one.cpu(), other)
        one.sum().backward(retain_graph=True)
        other.sum().backward(retain_graph=True)
    assert torch.equal(found.grad.cpu(), wanted.grad)
