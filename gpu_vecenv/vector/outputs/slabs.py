"""Check of an array that a caller binds for results."""

from __future__ import annotations

from typing import Any

from gpu_vecenv.errors import ArrayTypeError, DeviceError, ParameterError, ShapeError
from gpu_vecenv.spec.validation import describe, plain_tensor


def require_dense(name: str, slab: Any, kind: str, device: str) -> None:
    """Check that a slab is an array of a kind on a device, with a shape and memory.

    Args:
        name: output that the slab takes.
        slab: the array.
        kind: array kind of the env.
        device: device of the env; a NumPy slab is always on the host.

    Raises:
        ArrayTypeError, DeviceError: it is not.
    """
    form = describe(slab)
    if form.kind != kind or not hasattr(type(slab), "nbytes"):
        raise ArrayTypeError(f"bound {name} must be a {kind} array, got {type(slab).__name__}.")
    if kind != "numpy" and form.device != device:
        raise DeviceError(f"bound {name} must be on {device}, got {form.device}.")
    if kind == "torch":
        plain_tensor(slab, f"bound {name}")  # raises for sparse and nested tensors


def require_slab(name: str, slab: Any, kind: str, dtype: str, steps: int, shape: tuple[int, ...], extra: int = 0) -> None:
    """Check the shape, the dtype and the memory of one slab that ``require_dense()`` accepts.

    Args:
        name: output that the slab takes.
        slab: the array.
        kind: array kind of the env.
        dtype: dtype of the output.
        steps: T, the number of steps in the slabs.
        shape: shape of the output in one step.
        extra: 1 for observations and masks, whose slabs also hold those before the first step.

    Raises:
        ShapeError, ArrayTypeError: the slab does not fit; the message says what was expected and what came.
        ParameterError: a read-only slab.
    """
    if steps < 1 or tuple(slab.shape) != (steps + extra, *shape):
        expected = ("T + 1" if extra else "T", *shape)
        raise ShapeError(f"bound {name} must have shape ({', '.join(map(str, expected))}), got {tuple(slab.shape)}.")
    if describe(slab).dtype != dtype:
        raise ArrayTypeError(f"bound {name} must be {dtype}, got {slab.dtype}.")
    if kind == "torch":
        if slab.requires_grad or slab.is_inference():
            reason = "requires a gradient" if slab.requires_grad else "was made in inference mode"
            raise ArrayTypeError(f"bound {name} must be writable in place, got a tensor that {reason}.")
        if slab.is_neg():
            raise ArrayTypeError(f"bound {name} must hold its values, got a tensor that torch negates lazily.")
    contiguous = slab.is_contiguous() if kind == "torch" else slab.flags.c_contiguous
    if not contiguous:
        raise ShapeError(f"bound {name} must be C-contiguous.")
    if kind == "numpy" and not slab.flags.writeable:
        raise ParameterError(f"bound {name} is read-only.")
