"""Argument structs of ``update_args.h``, ``act.cu`` and ``rollout.cu`` in ``kernels/learner``, which assert their sizes."""

from __future__ import annotations

import ctypes
from typing import Any

from gpu_vecenv.spec.layout import Layout

MAX_TENSORS = 17
"""Parameters of two networks with three hidden layers, and ``log_std``."""


class Layer(ctypes.Structure):
    """Addresses of the weight and the bias of a layer."""

    _fields_ = (("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p))


class Slab(ctypes.Structure):
    """An array of a rollout: address, and distances between steps and between samples in numbers."""

    _fields_ = (("at", ctypes.c_void_p), ("step", ctypes.c_int64), ("sample", ctypes.c_int64))


class Parameter(ctypes.Structure):
    """Addresses of a parameter, of Adam's moments and of its number of steps; first column of the sums and size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weight", "mean", "square", "step")),
        ("first", ctypes.c_int32),
        ("size", ctypes.c_int32),
    )


class UpdateArgs(ctypes.Structure):
    """Arguments of one minibatch."""

    _fields_ = (
        ("layers", Layer * 4 * 2),
        *((name, ctypes.c_void_p) for name in ("offset", "scale", "shift")),
        *((name, ctype) for name, ctype in (("limit", ctypes.c_float), ("limit_padding", ctypes.c_int32))),
        *((name, ctypes.c_int32) for name in ("clip_value", "samples_per_step")),
        *((name, Slab) for name in ("obs", "action", "mask")),
        *((name, ctypes.c_void_p) for name in (
            "numbers", "choice", "samples", "moments", "log_std", "centre", "half_width", "entropy_coef", "clip_coef", "scales",
            "rate", "stash", "partial", "sums", "squares", "totals", "epoch_start", "stopped", "steps",
        )),
        ("tensors", Parameter * MAX_TENSORS),
        ("invalid_actions", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in (
            "num_worlds", "num_agents", "rows", "actor_blocks", "critic_blocks", "epoch", "minibatch", "ends_epoch",
        )),
        *((name, ctypes.c_float) for name in ("value_coef", "max_grad_norm", "target_kl", "eps")),
        *((name, ctypes.c_int32) for name in ("room", "slices", "adds", "unused")),
    )  # fmt: skip


class ActArgs(ctypes.Structure):
    """Arguments of a launch that computes one network for all rows."""

    _fields_ = (
        ("layers", Layer * 4),
        *((name, ctypes.c_void_p) for name in ("offset", "scale", "shift")),
        *((name, ctype) for name, ctype in (("limit", ctypes.c_float), ("limit_padding", ctypes.c_int32))),
        *((name, Slab) for name in ("obs", "mask", "action", "log_prob")),
        *((name, ctypes.c_void_p) for name in (
            "units", "result", "log_std", "centre", "half_width", "seed", "world_id", "episode", "t", "world", "agent",
            "invalid_actions",
        )),
        *((name, ctypes.c_int32) for name in (
            "num_worlds", "num_agents", "rows", "samples_per_step", "likeliest", "partly",
        )),
    )  # fmt: skip


def rollout_args(layout: Layout) -> Any:
    """Return the type of the arguments of a rollout, which begin with those of the env's kernels."""

    class RolloutArgs(ctypes.Structure):
        _fields_ = (
            ("env", ctypes.c_uint64 * (layout.dtype.itemsize // 8)),
            ("layers", Layer * 4),
            *((name, ctypes.c_void_p) for name in ("offset", "scale", "shift")),
            *((name, ctype) for name, ctype in (("limit", ctypes.c_float), ("limit_padding", ctypes.c_int32))),
            *((name, ctypes.c_void_p) for name in (
                "log_std", "centre", "half_width", "action", "log_prob", "invalid_actions",
            )),
            *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents", "steps", "unused")),
        )  # fmt: skip

    return RolloutArgs
