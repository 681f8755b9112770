"""Means and variances of samples, by kernels with the same bits on every device and for any number of threads.

The kernels are in ``kernels/returns/moments.cu``. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import MOMENTS
from gpu_vecenv.train.processes.group import Processes

ITEMS, DEPTH = MOMENTS.macros["ITEMS"], MOMENTS.macros["DEPTH"]

MAX_GROUP, MAX_MERGED = 16, 4
"""Most features of a team that reads samples, and of one that merges tiles: four numbers of eight bytes fill a sector."""


class Moments(NamedTuple):
    """Moments of F features."""

    mean: Tensor
    """float64 (F,)."""
    var: Tensor
    """float64 (F,)."""
    num_samples: Tensor
    """float64 ()."""


class Normal(NamedTuple):
    """Numbers that normalise, each float32 (F,): (x - mean) / std = (x - offset) scale + shift.

    The deviation is at least 1e-4.
    """

    offset: Tensor
    """The mean."""
    scale: Tensor
    shift: Tensor
    """Correction for the rounding of ``offset``."""


def moments(samples: Tensor, valid: Tensor, processes: Processes | None = None) -> Moments:
    """Return the moments of samples; 0 if none counts.

    Args:
        samples: float32 (rows, F), or (steps, rows of a step, F), of any strides.
        valid: bool (rows,), False for samples to leave out, which may hold anything.
        processes: processes whose samples count; None: this one alone.
    """
    width = samples.shape[-1]
    memory = torch.empty(2 * width + 1, dtype=torch.float64, device=samples.device)
    moments_of_rows = Moments(memory[:width], memory[width:-1], memory[-1])
    _merge(moments_of_rows, samples, valid, None, True, processes)
    return moments_of_rows


def merge(
    running: Moments, samples: Tensor | None = None, valid: Tensor | None = None, normal: Normal | None = None,
    processes: Processes | None = None,
) -> None:  # fmt: skip
    """Merge samples into running moments, in place.

    Args:
        running: moments so far, contiguous.
        samples: float32 (rows, F), or (steps, rows of a step, F), of any strides; None for no samples.
        valid: bool (rows,), False for samples to leave out, which may hold anything.
        normal: contiguous; replaced by the numbers of the merged moments.
        processes: see ``moments()``; their running moments are equal, and change by ``Processes.sum_then()``.
    """
    _merge(running, samples, valid, normal, False, processes)


def _merge(
    running: Moments, samples: Tensor | None, valid: Tensor | None, normal: Normal | None, is_new: bool,
    processes: Processes | None,
) -> None:  # fmt: skip
    """See ``merge()``; ``is_new`` means that the running moments are undefined and count no sample."""
    device, features = running.mean.device, running.mean.numel()
    if not features:
        return
    if samples is not None and valid is not None and processes is not None:
        tile = _own_tile(moments(samples, valid), processes)
        processes.sum_then(tile, lambda of_all: _merge_tiles(running, of_all, normal, is_new))
        return
    group, merged, tiles = _group(features, MAX_GROUP), _group(features, MAX_MERGED), 0
    call = _call(running, normal, is_new, group)
    args = call.args
    if samples is not None and valid is not None:
        by_step = samples if samples.dim() == 3 else samples[None]
        rows, strides = by_step.shape[0] * by_step.shape[1], zip(("step", "row", "feature"), by_step.stride(), strict=True)
        tiles = args.num_tiles = -(-rows // (ITEMS // group * DEPTH))
        call.set(
            rows=rows, rows_per_step=by_step.shape[1], samples=samples, valid=valid.contiguous(),
            **{f"{axis}_stride": stride for axis, stride in strides},
        )  # fmt: skip
        memory = torch.empty(tiles * 3 * features + 1, dtype=torch.float64, device=device)
        args.tiles = memory.data_ptr()
        call.launch("gv_moments", tiles * -(-features // group), samples.numel())
    args.group = merged
    call.launch("gv_merge", -(-features // merged), features * tiles)


def _call(running: Moments, normal: Normal | None, is_new: bool, group: int) -> Call:
    """Return a call of the kernels that merges into running moments; ``group`` is that of the first kernel."""
    call = Call(MOMENTS, running.mean.device, features=running.mean.numel(), is_new=is_new, group=group)
    args = call.args
    if is_new:  # just allocated
        args.mean, args.var, args.num_samples = running.mean.data_ptr(), running.var.data_ptr(), running.num_samples.data_ptr()
    else:
        call.set(mean=running.mean, var=running.var, num_samples=running.num_samples)
    if normal is not None:
        call.set(offset=normal.offset, scale=normal.scale, shift=normal.shift)
    return call


def _own_tile(of_process: Moments, processes: Processes) -> Tensor:
    """Return tiles whose sum over processes has the moments of each of them: zeros, but for the tile of this process.

    Returns:
        float64 (processes * 3 * F + 1,), as the kernels take them; the last number is for the samples before.
    """
    mean, var, count = of_process
    tiles = torch.zeros(processes.count * 3 * len(mean) + 1, dtype=torch.float64, device=mean.device)
    tile = tiles[:-1].view(processes.count, 3, len(mean))[processes.rank]
    torch.stack((count.expand_as(mean), mean, var * count), out=tile)
    return tiles


def _merge_tiles(running: Moments, tiles: Tensor, normal: Normal | None, is_new: bool) -> None:
    """Merge the tiles of all processes, see ``_own_tile()``."""
    features = running.mean.numel()
    if not is_new:
        tiles[-1] = running.num_samples
    merged, count = _group(features, MAX_MERGED), len(tiles) // (3 * features)
    call = _call(running, normal, is_new, merged)
    call.args.num_tiles, call.args.tiles = count, tiles.data_ptr()
    call.launch("gv_merge", -(-features // merged), features * count)


def _group(features: int, most: int) -> int:
    """Return the smallest power of two from the number of features on, but at most ``most``."""
    return min(1 << (features - 1).bit_length(), most)
