"""Feed-forward networks of rectified units on the CPU, as one operation of autograd.

Most time of an update is that of products of large matrices. For x86 PyTorch calls MKL, which uses half of the width of AMD's
vector units. oneDNN, which is part of PyTorch too, uses all of it; a call takes 10 us longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.private import layer_by_onednn

LAYER = layer_by_onednn()
LARGE = 1 << 20
"""Multiplications from which a product is one of oneDNN."""


class Dense(torch.autograd.Function):
    """Outputs of n networks that read the same rows; all layers but the last are followed by the rectifier.

    Weights must not change between ``forward()`` and ``backward()``.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights: Tensor) -> Tensor:
        """Return float32 (n, R, outputs).

        Args:
            ctx: what the derivatives need.
            x: float32 (R, inputs).
            weights: weight and bias of each layer, (n, inputs, outputs) and (n, 1, outputs) as those of ``Critics``, or of one
                network (outputs, inputs) and (outputs,) as those of ``nn.Linear``.
        """
        ctx.x, ctx.weights, ctx.hidden, outputs = x, weights, [], []
        for i in range(len(weights[0]) if weights[0].dim() == 3 else 1):
            *hidden, last = _results(x, list(_layers(weights, i)))
            ctx.hidden.append(hidden)
            outputs.append(last)
        return torch.stack(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives by the rows and by the weights."""
        of_rows: list[Tensor] = []
        of_weights = [torch.empty_like(part) for part in ctx.weights] if any(ctx.needs_input_grad[1:]) else []
        for i, (hidden, slope) in enumerate(zip(ctx.hidden, slopes, strict=True)):
            layers, into = list(_layers(ctx.weights, i)), list(_layers(of_weights, i))
            for at in reversed(range(len(layers))):
                inputs = hidden[at - 1] if at else ctx.x
                if into:
                    into[at][0].copy_(product(inputs.t(), slope))
                    torch.sum(slope, 0, out=into[at][1])
                if at:
                    slope = torch.ops.aten.threshold_backward(product(slope, layers[at][0].t()), inputs, 0)
                elif ctx.needs_input_grad[0]:
                    of_rows.append(product(slope, layers[at][0].t()))
        return (sum(of_rows[1:], of_rows[0]) if of_rows else None), *(of_weights or [None] * len(ctx.weights))


def _layers(weights: Sequence[Tensor], i: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the weight (inputs, outputs) and the bias (outputs,) of each layer of network i."""
    for weight, bias in zip(weights[::2], weights[1::2], strict=True):
        yield (weight[i], bias[i, 0]) if weight.dim() == 3 else (weight.t(), bias)


def _results(x: Tensor, layers: Sequence[tuple[Tensor, Tensor]]) -> Iterator[Tensor]:
    """Yield the results of each layer, (R, outputs)."""
    for number, (weight, bias) in enumerate(layers, start=1):
        is_last = number == len(layers)
        if len(x) * weight.numel() >= LARGE:
            x = LAYER(x, weight.t(), bias, "none" if is_last else "relu", [], "")
        else:
            x = torch.addmm(bias, x, weight)
            x = x if is_last else x.relu_()
        yield x


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product (m, n) of matrices (m, k) and (k, n), float32."""
    return LAYER(a, b.t(), None, "none", [], "") if len(a) * b.numel() >= LARGE else torch.mm(a, b)


def takes(x: object) -> bool:
    """Return True for rows that ``Dense`` takes."""
    return (
        isinstance(x, Tensor) and x.dim() == 2 and x.device.type == "cpu" and x.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
    )  # fmt: skip


def weights_of(network: nn.Sequential) -> list[Tensor] | None:
    """Return the arguments of ``Dense`` for a network, or None if it has other layers or functions that are attached to them."""
    kinds = [type(layer) for layer in network]
    if kinds != [nn.Linear, nn.ReLU] * (len(kinds) // 2) + [nn.Linear]:
        return None
    return [x for layer in network[::2] for x in (layer.weight, layer.bias)]
