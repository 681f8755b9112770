"""Networks of rectified units on the CPU as one operation equal layers of torch in float64, by either library of products."""

import pytest
import torch
from torch import nn

from gpu_vecenv.train import NetworkConfig
from gpu_vecenv.train.algorithms.off_policy import dense
from gpu_vecenv.train.algorithms.off_policy.critics import Critics
from gpu_vecenv.train.algorithms.off_policy.dense import Dense

CPU = torch.device("cpu")


def network_of(sizes):
    """Return layers of torch."""
    layers = [layer for pair in zip(sizes, sizes[1:], strict=False) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("large", [0, 200, 1 << 30])
@pytest.mark.parametrize(("rows", "sizes"), [(7, (3, 5, 6, 2)), (1, (2, 4, 1)), (9, (4, 3))])
def test_a_network_equals_its_layers(rows, sizes, large, monkeypatch):
    monkeypatch.setattr(dense, "LARGE", large)
    torch.manual_seed(rows)
    network, x, slopes = network_of(sizes), torch.randn(rows, sizes[0], requires_grad=True), torch.randn(rows, sizes[-1])
    found = Dense.of(network)(x)[0]
    gradients = torch.autograd.grad(found, [x, *network.parameters()], slopes)
    with torch.no_grad():
        assert torch.equal(Dense.of(network)(x)[0], found)
    network, exact = network.double(), x.detach().double().requires_grad_()
    want = network(exact)
    expected = torch.autograd.grad(want, [exact, *network.parameters()], slopes.double())
    for one, other in zip((found, *gradients), (want, *expected), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


def pair_of_critics(monkeypatch, large):
    """Return three critics, others with the same weights that are layers of torch, and rows."""
    monkeypatch.setattr(dense, "LARGE", large)
    torch.manual_seed(1)
    found, plain = (Critics(3, 4, 2, NetworkConfig((6, 5), "relu"), 5, CPU) for _ in range(2))
    plain.dense = None
    return found, plain, torch.randn(8, 4, requires_grad=True)


@pytest.mark.parametrize("large", [0, 1 << 30])
def test_critics_that_learn_equal_their_layers(large, monkeypatch):
    *both, x = pair_of_critics(monkeypatch, large)
    slopes, results = torch.randn(3, 8, 2), [critics(x) for critics in both]
    gradients = [torch.autograd.grad(y, [x, *one.parameters()], slopes) for y, one in zip(results, both, strict=True)]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("large", [0, 1 << 30])
@pytest.mark.parametrize("count", [1, 2, None])
def test_a_policy_climbs_the_first_critics_alone(count, large, monkeypatch):
    found, plain, x = pair_of_critics(monkeypatch, large)
    results = [critics.climbed(x, count) for critics in (found, plain)]
    slopes = torch.randn_like(results[0])
    assert len(slopes) == (count or 3)
    torch.testing.assert_close(*results)
    torch.testing.assert_close(results[0], plain(x)[:count])
    torch.testing.assert_close(*(torch.autograd.grad(y, x, slopes, retain_graph=True) for y in results))
    for y, critics in zip(results, (found, plain), strict=True):
        assert set(torch.autograd.grad(y, list(critics.parameters()), slopes, allow_unused=True)) == {None}


def test_other_layers_dtypes_and_autocast_are_those_of_torch():
    assert Dense.of(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))) is None
    assert Dense.of(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.ReLU(), nn.Linear(3, 1))) is None
    assert Dense.of(network_of((2, 3, 1)).double()) is None and Dense.of(network_of((2, 3, 1))) is not None
    assert Critics(2, 3, 1, NetworkConfig((4,), "relu", layer_norm=True), 0, CPU).dense is None
    assert Critics(2, 3, 1, NetworkConfig((4,), "tanh"), 0, CPU).dense is None
    rows = torch.zeros(2, 3)
    assert Dense.takes(rows) and not any(map(Dense.takes, (rows.double(), rows[0], {"own": rows})))
    with torch.autocast("cpu", torch.bfloat16):
        assert not Dense.takes(rows)
