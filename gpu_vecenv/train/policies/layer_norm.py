"""Layer norms on CUDA, with the ReLU behind them, by the kernels of ``kernels/policy/layer_norm.cu``.

Torch takes a launch more for a ReLU, and several for the derivatives, and reads the rows in each. A CUDA graph can record a call
if another call was made before.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import LAYER_NORMS

LEAST_ROWS = 4
"""Rows of a tile, at least: one for each warp of a block."""

ALIGNMENT = 16
"""Bytes of which addresses of rows are multiples."""

MOST_TILES, MOST_SUMS = 4096, 768
"""Tiles of rows at most, and of rows whose sums for weight and bias are added up. An H100 has room for 792 of these blocks."""


class NormKernels(torch.autograd.Function):
    """A layer norm of rows, with a ReLU or without, and its derivatives."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> Tensor:
        """Return float32 (R, n).

        Args:
            ctx: what the derivatives need.
            x: float32 (R, n), with n in ``LAYER_NORMS``, at an address that is a multiple of ``ALIGNMENT``.
            weight: float32 (n,).
            bias: float32 (n,).
            eps: addend of the variance.
            relu: negative results become 0.
        """
        y, moments = torch.empty_like(x), x.new_empty(len(x), 2)
        ctx.save_for_backward(x, weight, bias, moments)
        ctx.options = {"eps": eps, "relu": relu}
        _launch("gv_norm", MOST_TILES, x, weight=weight, bias=bias, moments=moments, y=y, **ctx.options)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_y: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives by x, weight and bias."""
        x, weight, bias, moments = ctx.saved_tensors
        of_y = of_y.contiguous() if of_y.data_ptr() % ALIGNMENT == 0 else of_y.clone(memory_format=torch.contiguous_format)
        of_x, of_tiles = torch.empty_like(x), x.new_empty(number_of_tiles(len(x), MOST_SUMS), 2, x.shape[1])
        outputs = {"of_x": of_x, "of_tiles": of_tiles}
        _launch("gv_norm_back", MOST_SUMS, x, weight=weight, bias=bias, moments=moments, of_y=of_y, **outputs, **ctx.options)
        of_weight, of_bias = of_tiles.sum(0)
        return of_x, of_weight, of_bias, None, None


def number_of_tiles(rows: int, most: int) -> int:
    """Return the number of tiles of some rows."""
    return -(-rows // _tile_rows(rows, most))


def _tile_rows(rows: int, most: int) -> int:
    return max(LEAST_ROWS, -(-rows // most))


def _launch(kernel: str, most: int, x: Tensor, **members: Any) -> None:
    rows, width = x.shape
    call = Call(LAYER_NORMS[width], x.device, rows=rows, width=width, tile_rows=_tile_rows(rows, most), x=x, **members)
    call.launch(kernel, number_of_tiles(rows, most), x.numel())


def norm_by_kernels(norm: nn.LayerNorm, x: Tensor, relu: bool) -> Tensor | None:
    """Return a layer norm of the last axis, with a ReLU behind it or without; None if torch computes it.

    Torch computes norms on the CPU, of numbers of 16 or 64 bits, without weight or bias, and of widths without kernels.
    """
    weight, bias, width = norm.weight, norm.bias, x.shape[-1:]
    if not x.is_cuda or x.dtype is not torch.float32 or width[0] not in LAYER_NORMS or norm.normalized_shape != width:
        return None
    rows = x.reshape(-1, width[0]).contiguous()
    if weight is None or bias is None or weight.dtype is not torch.float32 or rows.data_ptr() % ALIGNMENT:
        return None
    y: Tensor = NormKernels.apply(rows, weight, bias, norm.eps, relu)
    return y.view(x.shape)
