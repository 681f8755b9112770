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


Inputs = list[list[Tensor]]
"""Inputs of each layer of each network, (R, inputs)."""


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
        if not torch.is_grad_enabled():
            return self.outputs(x, count)[0]
        outputs: Tensor = _Outputs.apply(x, self, count, *(self.weights if learns else ()))
        return outputs

    def outputs(self, x: Tensor, count: int | None = None) -> tuple[Tensor, Inputs]:
        """Return what a call does, and the inputs of all layers, which ``slopes()`` takes."""
        inputs_of, outputs, rows = [], [], x.shape[0]
        for *hidden, last in self.networks[:count]:
            inputs = [x]
            for layer in hidden:
                if rows * layer.size >= LARGE:
                    inputs.append(LAYER(inputs[-1], layer.back, layer.bias, "relu", [], ""))
                else:
                    inputs.append(torch.addmm(layer.bias, inputs[-1], layer.weight).relu_())
            inputs_of.append(inputs)
            outputs.append(torch.addmm(last.bias, inputs[-1], last.weight))
        return torch.stack(outputs), inputs_of

    def slopes(self, slopes: Tensor, inputs_of: Inputs, by_weights: bool, by_rows: bool) -> tuple[list[Tensor], Tensor | None]:
        """Return the derivatives by the weights, if they are wanted, and by the rows, (R, inputs) or None.

        Args:
            slopes: float32 (n, R, outputs), derivatives by the outputs.
            inputs_of: what ``outputs()`` returned.
            by_weights: derivatives by the weights are wanted, of all networks.
            by_rows: derivatives by the rows are wanted.
        """
        gradients = [torch.empty_like(part) for part in self.weights] if by_weights else []
        into, of_rows = _networks(gradients) if gradients else (), None
        for i, slope in enumerate(slopes.unbind()):
            layers, inputs = self.networks[i], inputs_of[i]
            for at in range(len(layers) - 1, -1, -1):
                x = inputs[at]
                if gradients:
                    self._write_gradient(x, slope, into[i][at])
                if at:
                    slope = RECTIFIED_SLOPES(product(slope, layers[at].back), x, 0)
                elif by_rows:
                    of_one = product(slope, layers[at].back)
                    of_rows = of_one if of_rows is None else of_rows.add_(of_one)
        return gradients, of_rows

    def _write_gradient(self, x: Tensor, slope: Tensor, into: Layer) -> None:
        """Write the derivatives by the weights of a layer with the inputs x."""
        a, b, out = (x.t(), slope, into.weight) if self.stacked else (slope.t(), x, into.back)
        if a.shape[0] * b.numel() >= LARGE:
            out.copy_(product(a, b))
        else:
            torch.mm(a, b, out=out)
        torch.sum(slope, 0, out=into.bias)

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
    def forward(ctx: Any, x: Tensor, dense: Dense, count: int | None, *weights: Tensor) -> Tensor:
        """See ``Dense.__call__()``."""
        outputs, ctx.inputs_of = dense.outputs(x, count)
        ctx.dense = dense
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives by the rows and by the weights."""
        by_rows, _, _, *by_weights = ctx.needs_input_grad
        gradients, of_rows = ctx.dense.slopes(slopes, ctx.inputs_of, bool(by_weights), by_rows)
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
