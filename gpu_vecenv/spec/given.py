"""Numbers and arrays as callers give them, read so that nothing they hold changes without an error."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gpu_vecenv.errors import ArrayTypeError, DeviceError, ParameterError

Array = Any
"""A numpy.ndarray, torch.Tensor or cupy.ndarray."""


def library(value: Any) -> str:
    """``"torch"`` for a tensor, of a subclass too; else the top-level module of the value's type, such as ``"cupy"``."""
    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        return "torch"
    module = type(value).__module__.partition(".")[0]
    return "" if module == "torch" else module


def on_device(index: int) -> AbstractContextManager[Any]:
    """Make a CUDA device current for torch and CuPy in a block, and restore the previous one."""
    import torch

    return torch.cuda.device(index)


def real_number(value: Any) -> int | float | None:
    """A real number, also of NumPy or in an array without axes, as Python's int or float; None for everything else.

    A bool is no number, nor is a complex number or a duration. An int of any size stays what it is.
    """
    if library(value) in ("numpy", "torch", "cupy") and np.ndim(value) == 0 and not isinstance(value, np.generic):
        try:
            value = value.item()
        except (RuntimeError, TypeError, ValueError):  # a sparse, nested or meta tensor
            return None
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    return int(value) if isinstance(value, int | np.integer) else float(value)


def whole_number(value: Any) -> int | None:
    """An integer, also of NumPy or in an array without axes, as Python's int; None for everything else."""
    number = real_number(value)
    return number if isinstance(number, int) else None


def rounded(number: float, dtype: str = "float32") -> float:
    """A number rounded to a dtype of floats; infinite where it is too large."""
    with np.errstate(over="ignore"):
        try:
            return float(np.dtype(dtype).type(number))
        except OverflowError:
            return math.copysign(math.inf, 1 if number > 0 else -1)


def abbreviated(value: Any) -> str:
    """A value as an error's text shows it, in 100 characters at most."""
    try:
        text = repr(value)
    except ValueError:  # Python writes out no int of more than 4,300 digits
        if isinstance(value, int):
            return f"an integer of {value.bit_length():,} bits"
        return f"a {type(value).__name__} with an integer too long to print"
    return text if len(text) <= 100 else text[:97] + "..."


def limits(low: float, high: float) -> str:
    """The inclusive bounds of a number, of which at least one is finite, for an error's text."""
    named = [("at least", low)] * (low > -math.inf) + [("at most", high)] * (high < math.inf)
    return " and ".join(f"{words} {bound:g}" if isinstance(bound, float) else f"{words} {bound}" for words, bound in named)


def plain_tensor(tensor: Any, where: str) -> Any:
    """A detached torch tensor without lazy negation or conjugation.

    Raises:
        ArrayTypeError: a sparse or nested tensor, or one without memory.
        DeviceError: a tensor on the device "meta".
    """
    import torch

    if tensor.layout is not torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else f"with the layout {tensor.layout}"
        raise ArrayTypeError(f"{where} must be dense, got a tensor {layout}.")
    if tensor.device.type == "meta":
        raise DeviceError(f'{where} must hold values, got a tensor on the device "meta".')
    plain = tensor.as_subclass(torch.Tensor).detach().resolve_conj().resolve_neg()
    try:
        without_memory = plain.numel() > 0 and plain.data_ptr() == 0
    except RuntimeError:  # a tensor inside torch.vmap or torch.func.grad
        without_memory = True
    if without_memory:
        raise ArrayTypeError(f"{where} must hold values, got a tensor without memory.")
    return plain


def host_array(value: Any, where: str = "an array") -> Any:
    """An array of any kind as a NumPy array; a value that is no array comes back as it is.

    Args:
        value: an array or anything else.
        where: what the value is, for an error's text.

    Raises:
        ArrayTypeError: a sparse tensor, a dtype that NumPy does not have, or an array with a mask.
        DeviceError: a tensor without memory.
    """
    kind = library(value)
    if kind == "torch":
        tensor = plain_tensor(value, where).cpu()
        try:
            return tensor.numpy()
        except TypeError as error:
            raise ArrayTypeError(f"{where} must have a dtype that NumPy has, got {tensor.dtype}.") from error
    if kind == "cupy":
        with on_device(value.device.id):  # whose stream CuPy waits for
            return value.get()
    if isinstance(value, np.ma.MaskedArray):
        raise ArrayTypeError(f"{where} must be an array without a mask, got {type(value).__name__}.")
    return value


def list_array(value: Any, dtype: str, where: str) -> np.ndarray:
    """Numbers or nested lists of them as an array of a dtype.

    Raises:
        ArrayTypeError: no numbers, lists of unequal lengths, or numbers that the dtype cannot hold.
    """
    read = real_number if dtype == "float32" else whole_number
    numbers = []
    try:
        if isinstance(value, list | tuple) and any(isinstance(one, np.ma.MaskedArray) for one in value):
            raise ArrayTypeError(f"{where} must be {dtype} without a mask, got {type(value).__name__} of arrays with one.")
        given = np.array(value, object)
        for one in given.flat:
            numbers.append(read(one))
            if numbers[-1] is None:
                raise ArrayTypeError(f"{where} must be {dtype}, got {type(value).__name__} with {abbreviated(one)}.")
        with np.errstate(over="raise"):  # Python's numbers, as NumPy's integers would wrap
            return np.array(numbers, dtype).reshape(given.shape)
    except (ValueError, OverflowError, FloatingPointError) as error:
        raise ArrayTypeError(f"{where} must be {dtype}, got {type(value).__name__} that it cannot hold: {error}.") from error


def require_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """The mapping given.

    Raises:
        ArrayTypeError: no mapping, or keys that are no strings.
    """
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ArrayTypeError(f"{where} must be a mapping with names as keys, got {type(value).__name__}.")
    return value


def require_steps(num_steps: Any) -> int:
    """The number of steps given.

    Raises:
        ParameterError: no integer from 1 that 32 bits hold.
    """
    number = whole_number(num_steps)
    if number is None or not 1 <= number < 2**31:
        raise ParameterError(f"num_steps must be an integer from 1 to 2147483647, got {abbreviated(num_steps)}.")
    return number


def require_one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Raise ParameterError unless it is one of the values allowed, of the same type."""
    if not any(type(value) is type(one) and value == one for one in allowed):
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {abbreviated(value)}.")
