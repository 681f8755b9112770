"""Feed-forward networks of rectified units on the CPU, as one operation of autograd.

Most time of an update is that of products of large matrices. For x86 PyTorch calls MKL, which uses half of the width of AMD's
vector units. oneDNN, which is part of PyTorch too, uses all of it; a call takes 10 us longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.private import layer_by_onednn

LAYER, RECTIFIED_SLOPES = layer_by_onednn(), torch.ops.aten.threshold_backward.default
LARGE = 1 << 20
"""Multiplications from which a product is one of oneDNN."""


class Layer(NamedTuple):
    """Views of the weights of a layer, whose memory stays."""

    weight: Tensor
    """float32 (inputs, outputs)."""
    back: Tensor
    """float32 (outputs, inputs), its transpose."""
    bias: Tensor
    """float32 (outputs,)."""
    size: int
    """Numbers of the weight."""


class Dense:
    """n networks of equal shape, which read the same rows."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        """List the layers.

        Args:
            weights: weight and bias of each layer, (n, inputs, outputs) and (n, 1, outputs) as those of ``Critics``, or of one
                network (outputs, inputs) and (outputs,) as those of ``nn.Linear``.
        """
        self.weights, self.stacked = tuple(weights), weights[0].dim() == 3
        self.networks = _networks([part.detach() for part in weights])

    def __call__(self, x: Tensor, learns: bool = True, count: int | None = None) -> Tensor:
        """Return float32 (n, R, outputs) of rows (R, inputs). Weights must not change before the derivatives are computed.

        Args:
            x: the rows.
            learns: the result has derivatives by the weights.
            count: networks to compute, the first ones; None: all.
        """
        outputs: Tensor = _Outputs.apply(x, self, self.networks[:count], *(self.weights if learns else ()))
        return outputs

    @staticmethod
    def takes(x: object) -> bool:
        """Return True for rows that networks read here."""
        return (
            isinstance(x, Tensor) and x.dim() == 2 and x.is_cpu and x.dtype == torch.float32
            and not torch.is_autocast_enabled("cpu")
        )  # fmt: skip

    @classmethod
    def of(cls, network: nn.Sequential) -> Dense | None:
        """Return a network, or None if it is on another device or has other layers."""
        kinds, weights = [type(layer) for layer in network], list(network.parameters())
        fits = kinds == [nn.Linear, nn.ReLU] * (len(kinds) // 2) + [nn.Linear]
        return cls(weights) if fits and weights[0].is_cpu and weights[0].dtype == torch.float32 else None


class _Outputs(torch.autograd.Function):
    """Outputs of networks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dense: Dense, networks: Sequence[Sequence[Layer]], *weights: Tensor) -> Tensor:
        """See ``Dense.__call__()``."""
        ctx.inputs, outputs = [], []
        rows = x.shape[0]
        for layers in networks:
            result, inputs = x, []
            for layer in layers[:-1]:
                inputs.append(result)
                if rows * layer.size >= LARGE:
                    result = LAYER(result, layer.back, layer.bias, "relu", [], "")
                else:
                    result = torch.addmm(layer.bias, result, layer.weight).relu_()
            inputs.append(result)
            ctx.inputs.append(inputs)
            outputs.append(torch.addmm(layers[-1].bias, result, layers[-1].weight))
        ctx.dense, ctx.networks = dense, networks
        return torch.stack(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives by the rows and by the weights."""
        stacked, of_rows = ctx.dense.stacked, None
        gradients = [torch.empty_like(part) for part in ctx.dense.weights] if len(ctx.needs_input_grad) > 3 else []
        into = _networks(gradients) if gradients else ()
        for i, slope in enumerate(slopes.unbind()):
            layers, inputs = ctx.networks[i], ctx.inputs[i]
            for at in range(len(layers) - 1, -1, -1):
                x = inputs[at]
                if gradients and stacked:
                    _write_product(x.t(), slope, into[i][at].weight)
                elif gradients:
                    _write_product(slope.t(), x, into[i][at].back)
                if gradients:
                    torch.sum(slope, 0, out=into[i][at].bias)
                if at:
                    slope = RECTIFIED_SLOPES(product(slope, layers[at].back), x, 0)
                elif ctx.needs_input_grad[0]:
                    of_one = product(slope, layers[at].back)
                    of_rows = of_one if of_rows is None else of_rows.add_(of_one)
        return of_rows, None, None, *gradients


def _networks(weights: Sequence[Tensor]) -> list[list[Layer]]:
    """Return the layers of each network."""
    if weights[0].dim() == 2:
        return [[Layer(x.t(), x, bias, x.numel()) for x, bias in zip(weights[::2], weights[1::2], strict=True)]]
    parts = [part.unbind() for part in weights]
    return [
        [Layer(x, x.t(), bias[0], x.numel()) for x, bias in zip(network[::2], network[1::2], strict=True)]
        for network in zip(*parts, strict=True)
    ]  # fmt: skip


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product (m, n) of matrices (m, k) and (k, n), float32."""
    return LAYER(a, b.t(), None, "none", [], "") if a.shape[0] * b.numel() >= LARGE else torch.mm(a, b)


def _write_product(a: Tensor, b: Tensor, out: Tensor) -> None:
    if a.shape[0] * b.numel() >= LARGE:
        out.copy_(LAYER(a, b.t(), None, "none", [], ""))
    else:
        torch.mm(a, b, out=out)
