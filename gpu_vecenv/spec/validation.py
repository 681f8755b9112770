"""Numbers and arrays given by callers, read without silent changes of their values."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from typing_extensions import TypeVar

from gpu_vecenv.errors import ArrayTypeError, DeviceError, ParameterError, SpecError

if TYPE_CHECKING:
    import cupy
    import jax
    import torch

# A type checker takes the type of a library that is not installed as Any.
Array: TypeAlias = "torch.Tensor | np.ndarray | cupy.ndarray | jax.Array"
"""An array of any kind that an env can hand out."""

ArrayT = TypeVar("ArrayT", default=Any)
"""The array kind of one env: one of the types in ``Array``."""


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """Library, device and dtype of a value.

    Attributes:
        kind: ``"torch"`` for a tensor, also of a subclass; ``"jax"`` for a ``jax.Array``; otherwise the top-level module of the
            value's type, such as ``"numpy"``, ``"cupy"`` or ``"builtins"``; ``""`` for a type of torch that is no tensor.
        device: ``"cuda:N"`` or ``"cpu"``; for a tensor any name that torch has, such as ``"meta"``. ``"cpu"`` for JAX, whose
            arrays are read through the host.
        dtype: name of the dtype as NumPy spells it, such as ``"float32"``; ``""`` without one.
    """

    kind: str
    device: str
    dtype: str


def describe(value: Any) -> ArrayKind:
    """Return the library, the device and the dtype of an array or any other value. Imports no library."""
    kind = _library(value)
    device = "cpu"
    if kind == "torch":
        device = str(value.device)
    elif kind == "cupy":
        device = f"cuda:{value.device.id}"
    return ArrayKind(kind, device, str(getattr(value, "dtype", "")).removeprefix("torch."))


def _library(value: Any) -> str:
    """``ArrayKind.kind`` alone, without the cost of device and dtype."""
    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        return "torch"
    if isinstance(value, getattr(sys.modules.get("jax"), "Array", ())):
        return "jax"
    module = type(value).__module__.partition(".")[0]
    return "" if module == "torch" else module


def array_library(kind: str) -> Any:
    """Import the functions on arrays of a kind, such as ``concatenate``: those of torch, CuPy, NumPy or ``jax.numpy``."""
    return import_module("jax.numpy" if kind == "jax" else kind)


def on_device(index: int) -> AbstractContextManager[Any]:
    """Make a CUDA device current for torch and CuPy in a block, and restore the previous one."""
    import torch

    return torch.cuda.device(index)


def real_number(value: Any) -> int | float | None:
    """Return a real number as Python's int or float, or None for any other value.

    Numbers of NumPy and arrays without axes are numbers; bools, complex numbers and durations are not. An int may have any size.
    """
    if _library(value) in ("numpy", "torch", "cupy", "jax") and np.ndim(value) == 0 and not isinstance(value, np.generic):
        try:
            value = value.item()
        except (RuntimeError, TypeError, ValueError):  # a sparse, nested or meta tensor
            return None
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    return int(value) if isinstance(value, int | np.integer) else float(value)


def whole_number(value: Any) -> int | None:
    """Return an integer as Python's int, or None for any other value; see ``real_number()``."""
    number = real_number(value)
    return number if isinstance(number, int) else None


def rounded(number: float, dtype: str = "float32") -> float:
    """Round a number to a float dtype; a number beyond its range becomes infinite."""
    with np.errstate(over="ignore"):
        try:
            return float(np.dtype(dtype).type(number))
        except OverflowError:
            return math.copysign(math.inf, 1 if number > 0 else -1)


def abbreviated(value: Any) -> str:
    """Return a value's text for an error message, at most 100 characters."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no int of more than 4,300 digits
        if isinstance(value, int):
            return f"an integer of {value.bit_length():,} bits"
        return f"a {type(value).__name__} with an integer too long to print"
    except Exception as error:  # code of the value's class; RecursionError for lists deep inside each other
        return f"a {type(value).__name__} that cannot be printed ({type(error).__name__})"
    return text if len(text) <= 100 else text[:97] + "..."


def limits(low: float, high: float) -> str:
    """Return the text of inclusive bounds for an error message; at least one bound is finite."""
    named = [("at least", low)] * (low > -math.inf) + [("at most", high)] * (high < math.inf)
    return " and ".join(f"{words} {bound:g}" if isinstance(bound, float) else f"{words} {bound}" for words, bound in named)


def plain_tensor(tensor: Any, where: str) -> Any:
    """Return a torch tensor without its gradient, and without lazy negation or conjugation.

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
        raise ArrayTypeError(f"{where} must hold values, got a tensor that has no memory.")
    return plain


def _is_masked(value: Any) -> bool:
    """Return True for an array with a mask. NumPy imports their module at its first use, which few programs need."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def host_array(value: Any, where: str = "an array") -> Any:
    """Return an array of any kind as a NumPy array, and a value that is no array unchanged.

    Args:
        value: an array or any other value.
        where: name of the value in error messages.

    Raises:
        ArrayTypeError: a sparse tensor, a dtype that NumPy does not have, an array with a mask, or a JAX array without values.
        DeviceError: a tensor on the device "meta".
    """
    kind = _library(value)
    if kind == "torch":
        tensor = plain_tensor(value, where).cpu()
        try:
            return tensor.numpy()
        except TypeError as error:
            raise ArrayTypeError(f"{where} must have a dtype that NumPy has, got {tensor.dtype}.") from error
    if kind == "cupy":
        with on_device(value.device.id):  # CuPy waits for the current stream of the current device
            return value.get()
    if kind == "jax":
        try:
            return np.asarray(value)
        except (TypeError, RuntimeError) as error:  # inside jax.jit; deleted
            raise ArrayTypeError(f"{where} must be an array with values, got a JAX array without: {error}") from error
    if _is_masked(value):
        raise ArrayTypeError(f"{where} must be an array without a mask, got {type(value).__name__}.")
    return value


def list_array(value: Any, dtype: str, where: str) -> np.ndarray:
    """Return a number or nested lists of numbers as an array of a dtype.

    Raises:
        ArrayTypeError: no numbers, lists of unequal lengths, or numbers that the dtype cannot hold.
    """
    read = real_number if dtype in ("float32", "float64") else whole_number
    python_numbers = []
    try:
        if isinstance(value, list | tuple) and any(map(_is_masked, value)):
            raise ArrayTypeError(f"{where} must be {dtype} without a mask, got {type(value).__name__} of arrays with one.")
        nested = np.array(value, object)
        for one in nested.flat:
            python_numbers.append(read(one))
            if python_numbers[-1] is None:
                raise ArrayTypeError(f"{where} must be {dtype}, got {type(value).__name__} with {abbreviated(one)}.")
        with np.errstate(over="raise"):  # ``numbers`` are Python's, because NumPy's integers would wrap around
            return np.array(python_numbers, dtype).reshape(nested.shape)
    except (ValueError, OverflowError, FloatingPointError) as error:
        raise ArrayTypeError(f"{where} must be {dtype}, got {type(value).__name__} that {dtype} cannot hold: {error}.") from error


def require_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return the mapping given.

    Raises:
        ArrayTypeError: not a mapping, or a key that is not a string.
    """
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ArrayTypeError(f"{where} must be a mapping with names as keys, got {type(value).__name__}.")
    return value


def require_steps(num_steps: Any) -> int:
    """Return the number of steps given.

    Raises:
        ParameterError: not an integer from 1 to 2**31 - 1.
    """
    number = whole_number(num_steps)
    if number is None or not 1 <= number < 2**31:
        raise ParameterError(f"num_steps must be an integer from 1 to 2147483647, got {abbreviated(num_steps)}.")
    return number


def require_one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Raise ParameterError unless ``value`` equals one of the values allowed and has its type."""
    if not any(type(value) is type(one) and value == one for one in allowed):
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {abbreviated(value)}.")


def lists_as_tuples(declaration: Any, *names: str) -> None:
    """Replace lists among the named fields of a frozen dataclass by tuples."""
    for name in names:
        if isinstance(getattr(declaration, name), list):
            object.__setattr__(declaration, name, tuple(getattr(declaration, name)))


def require_part(holds: bool, where: str, expected: str, got: Any) -> None:
    """Raise SpecError unless a part of a spec, which ``where`` names with its env, is as expected."""
    if not holds:
        raise SpecError(f"{where} must be {expected}, got {abbreviated(got)}.")


_Declared = TypeVar("_Declared")


def checked_keywords(cls: type[_Declared]) -> type[_Declared]:
    """Let the constructor of a declaration raise SpecError, with all names, for a field that is unknown, missing or doubled."""
    construct: Callable[..., None] = cls.__init__
    signature = inspect.signature(construct)
    known = [name for name in signature.parameters if name != "self"]

    @functools.wraps(construct)
    def __init__(self: Any, *values: Any, **fields: Any) -> None:
        wrong = next((name for name in fields if name not in known), None)
        if wrong is not None:
            close = difflib.get_close_matches(wrong, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise SpecError(f"{cls.__name__} has no field {wrong!r}.{hint} It has: {', '.join(known)}.")
        try:
            signature.bind(self, *values, **fields)
        except TypeError as error:
            raise SpecError(f"{cls.__name__}: {error}. Its fields are, in their order: {', '.join(known)}.") from None
        construct(self, *values, **fields)

    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls
