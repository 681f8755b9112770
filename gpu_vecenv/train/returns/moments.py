"""Means and variances of samples, by kernels with the same bits on every device and for any number of threads.

The kernels are in ``kernels/returns/moments.cu``. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import MOMENTS

ITEMS, DEPTH = 128, 32
"""``GV_ITEMS`` and ``GV_DEPTH`` of the kernels."""

MAX_GROUP, MAX_MERGED = 16, 4
"""Most features of a team that reads samples, and of one that merges tiles: four numbers of eight bytes fill a sector."""

SMALL = 1 << 14
"""Below this many numbers a second CPU thread saves less time than it takes to wake it."""


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


def moments(samples: Tensor, valid: Tensor) -> Moments:
    """Return the moments of samples; 0 if none counts.

    Args:
        samples: float32 (rows, F), of any strides.
        valid: bool (rows,), False for samples to leave out, which may hold anything.
    """
    width = samples.shape[1]
    made = torch.empty(2 * width + 1, dtype=torch.float64, device=samples.device)
    found = Moments(made[:width], made[width:-1], made[-1])
    _merge(found, samples, valid, None, is_new=True)
    return found


def merge(running: Moments, samples: Tensor | None = None, valid: Tensor | None = None, normal: Normal | None = None) -> None:
    """Merge samples into running moments, in place.

    Args:
        running: moments so far, contiguous.
        samples: float32 (rows, F), of any strides; None for no samples.
        valid: bool (rows,), False for samples to leave out, which may hold anything.
        normal: contiguous; replaced by the numbers of the merged moments.
    """
    _merge(running, samples, valid, normal, is_new=False)


def _merge(running: Moments, samples: Tensor | None, valid: Tensor | None, normal: Normal | None, is_new: bool) -> None:
    """See ``merge()``; ``is_new`` means that the running moments are undefined and count no sample."""
    device, features = running.mean.device, running.mean.numel()
    if not features:
        return
    program, args, tiles = launches(MOMENTS, device), _Args(), None
    args.mean, args.var, args.count = (x.data_ptr() for x in running)
    if normal is not None:
        args.offset, args.scale, args.shift = (x.data_ptr() for x in normal)
    args.num_agents, args.features, args.is_new = 1, features, is_new
    if samples is not None and valid is not None:
        args.group = _group(features, MAX_GROUP)
        args.rows, (args.row_stride, args.feature_stride) = len(samples), samples.stride()
        args.num_tiles = -(-len(samples) // (ITEMS // args.group * DEPTH))
        tiles, valid = torch.empty(args.num_tiles * 3 * features + 1, dtype=torch.float64, device=device), valid.contiguous()
        args.samples, args.valid, args.tiles = samples.data_ptr(), valid.data_ptr(), tiles.data_ptr()
        args.num_worlds = args.num_tiles * -(-features // args.group)
        if args.num_worlds:
            program.launch("gv_moments", args, args.num_worlds, samples.numel() < SMALL)
    args.group = _group(features, MAX_MERGED)
    args.num_worlds = -(-features // args.group)
    program.launch("gv_merge", args, args.num_worlds, features * args.num_tiles < SMALL)


def _group(features: int, most: int) -> int:
    """Return the smallest power of two from the number of features on, but at most ``most``."""
    return min(1 << (features - 1).bit_length(), most)


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/returns/moments.cu``, which asserts its size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in (
            "samples", "valid", "tiles", "mean", "var", "count", "offset", "scale", "shift", "invalid_actions",
        )),
        *((name, ctypes.c_int64) for name in ("rows", "row_stride", "feature_stride")),
        *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents", "num_tiles", "features", "group", "is_new")),
    )  # fmt: skip
