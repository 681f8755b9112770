"""Layer norms by kernels, compared with operations of torch in float64."""

import pytest
import torch
from torch import nn

from gpu_vecenv.backend.private import call_layers
from gpu_vecenv.train.policies.layer_norm import MOST_SUMS, NormKernels, norm_by_kernels

SIZES = [(1, 64), (7, 128), (4 * MOST_SUMS + 9, 64), (33, 256), (50, 512)]


def norm_of(width):
    """A norm whose weight and bias differ from 1 and 0, some of them negative."""
    norm = nn.LayerNorm(width)
    g = torch.Generator().manual_seed(width)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(width, generator=g))
        norm.bias.copy_(torch.randn(width, generator=g))
    return norm


def rows_of(rows, width, offset=3.0):
    """Rows whose mean is larger than their deviation, and factors of their results."""
    g = torch.Generator().manual_seed(rows)
    return offset + torch.randn(rows, width, generator=g), torch.randn(rows, width, generator=g)


def by_kernels(norm, x, relu):
    """The layer norm of any device, by kernels."""
    return NormKernels.apply(x, norm.weight, norm.bias, norm.eps, relu)


def by_torch(norm, x, relu):
    """The same by torch."""
    y = norm(x)
    return y.relu() if relu else y


def results(run, norm, x, factors, relu):
    """Results and derivatives by x, weight and bias, in float64."""
    x = x.clone().requires_grad_()
    y = run(norm, x, relu)
    (y * factors).sum().backward()
    return [each.detach().cpu().double() for each in (y, x.grad, norm.weight.grad, norm.bias.grad)]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("rows, width", SIZES)
def test_kernels_equal_torch(rows, width, relu, device):
    norm, (x, factors) = norm_of(width), rows_of(rows, width)
    wanted = results(by_torch, norm.double(), x.double(), factors.double(), relu)
    norm = norm_of(width).to(device)
    for one, other in zip(results(by_kernels, norm, x.to(device), factors.to(device), relu), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


def test_numbers_that_are_not_finite_stay():
    norm, (x, _) = norm_of(64), rows_of(3, 64)
    x[1, 2] = torch.nan
    y = by_kernels(norm, x, True)
    assert y[1].isnan().all() and y[[0, 2]].isfinite().all()


def test_torch_computes_what_kernels_do_not():
    x = torch.randn(4, 64)
    assert norm_by_kernels(nn.LayerNorm(64), x, True) is None  # on the CPU


@pytest.mark.gpu
def test_kernels_are_chosen_by_type_and_width():
    x, norm = torch.randn(2, 3, 64, device="cuda"), nn.LayerNorm(64, device="cuda")
    torch.testing.assert_close(norm_by_kernels(norm, x, False), norm(x))
    assert norm_by_kernels(nn.LayerNorm(65, device="cuda"), torch.randn(2, 65, device="cuda"), False) is None
    assert norm_by_kernels(norm, x.half(), False) is None
    assert norm_by_kernels(norm, torch.randn(129, device="cuda")[1:].view(2, 64), False) is None
    assert norm_by_kernels(nn.LayerNorm(64, bias=False, device="cuda"), x, False) is None
    assert norm_by_kernels(nn.LayerNorm((3, 64), device="cuda"), x, False) is None


LAYERS = {
    "norm and ReLU": lambda: nn.Sequential(nn.Linear(64, 128), norm_of(128), nn.ReLU(), nn.Linear(128, 2)),
    "norm and another function": lambda: nn.Sequential(nn.Linear(64, 128), norm_of(128), nn.SiLU(), nn.Linear(128, 2)),
    "norm at the end": lambda: nn.Sequential(nn.Linear(64, 128), norm_of(128)),
    "norm and ReLU at the end": lambda: nn.Sequential(norm_of(64), nn.ReLU()),
    "two norms": lambda: nn.Sequential(norm_of(64), norm_of(64), nn.ReLU(), nn.ReLU()),
}


@pytest.mark.parametrize("layers", LAYERS.values(), ids=LAYERS)
def test_layers_give_what_torch_gives(layers):
    layers, x, flags = layers(), torch.randn(6, 64), []

    def norm(layer, x, relu):
        flags.append(relu)
        return by_kernels(layer, x, relu)

    torch.testing.assert_close(call_layers(norm)(layers, x), layers(x))
    assert torch.equal(call_layers(lambda *_: None)(layers, x), layers(x))
    norms = [number for number, layer in enumerate(layers) if isinstance(layer, nn.LayerNorm)]
    assert flags == [type(dict(enumerate(layers)).get(number + 1)) is nn.ReLU for number in norms]


@pytest.mark.parametrize("watched", [1, 2])
def test_attached_functions_see_the_norm_and_the_relu_alone(watched):
    layers, x, seen = LAYERS["norm and ReLU"](), torch.randn(6, 64), []
    layers[watched].register_forward_hook(lambda layer, inputs, output: seen.append(output))
    y = call_layers(by_kernels)(layers, x)
    torch.testing.assert_close(seen[0], layers[: watched + 1](x))
    torch.testing.assert_close(y, layers(x))
