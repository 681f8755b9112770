"""Layer norms on CUDA, with the ReLU behind them, by the kernels of ``kernels/policy/layer_norm.cu``.

Torch takes a launch more for a ReLU, and several for the derivatives, and reads the rows in each. A CUDA graph can record a call
if another call was made before.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import LAYER_NORM, MOST_NORM_WIDTH

LEAST_ROWS, MOST_TILES = 4, 1024
"""Rows of a tile at least, one for each warp of a block, and tiles at most."""


class NormKernels(torch.autograd.Function):
    """A layer norm of rows, with a ReLU or without, and its derivatives."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> Tensor:
        """Return float32 (R, n).

        Args:
            ctx: what the derivatives need.
            x: float32 (R, n), with n up to ``MOST_NORM_WIDTH``.
            weight: float32 (n,).
            bias: float32 (n,).
            eps: addend of the variance.
            relu: negative results become 0.
        """
        rows, width = x.shape
        tile_rows = max(LEAST_ROWS, -(-rows // MOST_TILES))
        shape = {"rows": rows, "width": width, "tile_rows": tile_rows, "eps": eps, "relu": relu}
        y, moments = torch.empty_like(x), x.new_empty(rows, 2)
        call = Call(LAYER_NORM, x.device, **shape, x=x, weight=weight, bias=bias, y=y, moments=moments)
        call.launch("gv_norm", -(-rows // tile_rows), x.numel())
        ctx.save_for_backward(x, weight, bias, moments)
        ctx.shape = shape
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_y: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives by x, weight and bias."""
        x, weight, bias, moments = ctx.saved_tensors
        tiles = -(-len(x) // ctx.shape["tile_rows"])
        of_x, of_tiles = torch.empty_like(x), x.new_empty(tiles, 2, x.shape[1])
        call = Call(
            LAYER_NORM, x.device, **ctx.shape, x=x, weight=weight, bias=bias, moments=moments, of_y=of_y.contiguous(), of_x=of_x,
            of_tiles=of_tiles,
        )  # fmt: skip
        call.launch("gv_norm_back", tiles, x.numel())
        of_weight, of_bias = of_tiles.sum(0)
        return of_x, of_weight, of_bias, None, None


def norm_by_kernels(norm: nn.LayerNorm, x: Tensor, relu: bool) -> Tensor | None:
    """Return a layer norm of the last axis, with a ReLU behind it or without; None if torch computes it.

    That is so on the CPU, for numbers of 16 or 64 bits, for wide rows, and for norms without weight or bias.
    """
    weight, bias = norm.weight, norm.bias
    plain = x.is_cuda and x.dtype is torch.float32 and norm.normalized_shape == x.shape[-1:] and x.shape[-1] <= MOST_NORM_WIDTH
    if not plain or weight is None or bias is None or weight.dtype is not torch.float32:
        return None
    y: Tensor = NormKernels.apply(x.reshape(-1, x.shape[-1]).contiguous(), weight, bias, norm.eps, relu)
    return y.view(x.shape)
