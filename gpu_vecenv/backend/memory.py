"""Memory of each array kind: allocation, copies, addresses. A class imports its library, torch or CuPy, when it is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import starmap
from typing import Any, Protocol

import numpy as np

from gpu_vecenv.backend.host_memory import free_host_bytes
from gpu_vecenv.backend.private import current_device, empty_strided
from gpu_vecenv.errors import DeviceError
from gpu_vecenv.spec.validation import Array, describe, host_array, on_device, plain_tensor


class Memory(Protocol):
    """Interface of an array library on one device. Arrays are C-contiguous.

    Attributes:
        kind: ``"numpy"``, ``"torch"`` or ``"cupy"``.
        moves: True if a caller can move an array that was handed out to other memory.
    """

    kind: str
    moves: bool

    def here(self) -> AbstractContextManager[Any]:
        """Make the device of these arrays current in a block, which CuPy needs, and restore the previous one."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Return an uninitialised array."""

    def allocator(self, arrays: Sequence[tuple[tuple[int, ...], str]]) -> Callable[[], list[Array]]:
        """Return a function whose calls return fresh, uninitialised arrays, one for each (shape, dtype)."""

    def from_numpy(self, values: np.ndarray) -> Array:
        """Return a copy of a host array."""

    def to_numpy(self, array: Any) -> np.ndarray:
        """Return a host copy; waits for the device."""

    def copy(self, array: Any) -> Array:
        """Return a copy on the same device."""

    def assign(self, target: Any, values: Any) -> None:
        """Overwrite ``target`` with values of the same shape."""

    def adopt(self, array: Array, where: str) -> Array:
        """Return a C-contiguous array of this memory for an array of any kind: the array given if it is one, otherwise a copy.

        Raises:
            ArrayTypeError, DeviceError: an array that cannot be read; the message starts with ``where``.
        """

    def address(self, array: Any, /) -> int:
        """Return the address of the first byte."""

    def free_bytes(self) -> int | None:
        """Return the bytes free for arrays, including bytes that the library's allocator holds unused; None if unknown."""


class NumpyMemory:
    """Host memory as NumPy arrays."""

    kind = "numpy"
    moves = False

    def here(self) -> AbstractContextManager[Any]:
        """Do nothing."""
        return nullcontext()

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """Uninitialised array."""
        return np.empty(shape, dtype)

    def allocator(self, arrays: Sequence[tuple[tuple[int, ...], str]]) -> Callable[[], list[Array]]:
        """Return a function that makes fresh arrays."""
        return lambda: list(starmap(np.empty, arrays))

    def from_numpy(self, values: np.ndarray) -> np.ndarray:
        """Copy of a host array."""
        return np.array(values)

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        """Copy."""
        return np.array(array)

    def copy(self, array: np.ndarray) -> np.ndarray:
        """Copy."""
        return np.array(array)

    def assign(self, target: np.ndarray, values: np.ndarray) -> None:
        """Overwrite ``target``."""
        target[...] = values

    def adopt(self, array: Array, where: str) -> np.ndarray:
        """The array on the host."""
        return np.ascontiguousarray(host_array(array, where))

    def address(self, array: np.ndarray, /) -> int:
        """Address of the first byte."""
        return int(array.ctypes.data)

    def free_bytes(self) -> int | None:
        """Bytes free in the host's memory."""
        return free_host_bytes()


class TorchMemory:
    """Memory of one device as torch tensors; on CUDA it comes from torch's caching allocator."""

    kind = "torch"

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._device = torch.device(device)
        self.moves = self._device.type == "cpu"
        self.address: Callable[[Any], int] = torch.Tensor.data_ptr  # no wrapper, because each step needs several addresses
        self._dtypes = {name: getattr(torch, name) for name in ("float32", "int32", "int16", "uint8", "uint64", "bool")}

    def __reduce__(self) -> tuple[type[TorchMemory], tuple[str]]:
        """For copies of objects that hold a memory: it is made again, because modules cannot be pickled."""
        return TorchMemory, (str(self._device),)

    def here(self) -> AbstractContextManager[Any]:
        """Do nothing: torch computes on the device of a tensor."""
        return nullcontext()

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Uninitialised tensor. It is made outside inference mode, so that code in any mode can write it in place."""
        if self._torch.is_inference_mode_enabled():
            with self._torch.inference_mode(False):
                return self.empty(shape, dtype)
        return self._torch.empty(shape, dtype=self._dtypes[dtype], device=self._device)

    def allocator(self, arrays: Sequence[tuple[tuple[int, ...], str]]) -> Callable[[], list[Array]]:
        """Return a function that makes fresh tensors. Each is an allocation of its own, so that its address is well aligned."""
        torch, inferring = self._torch, self._torch.is_inference_mode_enabled
        on_cuda = self._device.type == "cuda"
        make = empty_strided(self._device)
        current = current_device() if on_cuda else lambda: -1
        index = self._device.index if on_cuda else -1  # torch.cuda.device(-1) changes nothing
        forms = [(shape, _strides(shape), self._dtypes[dtype]) for shape, dtype in arrays]

        def allocate() -> list[Array]:
            if inferring() or current() != index:
                with torch.inference_mode(False), torch.cuda.device(index):
                    return allocate()
            return list(starmap(make, forms))

        return allocate

    def from_numpy(self, values: np.ndarray) -> Array:
        """Tensor with a copy of host values."""
        with self._torch.inference_mode(False):
            return self._torch.from_numpy(np.array(values)).to(self._device)

    def to_numpy(self, array: Any) -> np.ndarray:
        """Host copy."""
        return np.array(array.detach().cpu().numpy())

    def copy(self, array: Any) -> Array:
        """Copy on the same device, writable in any mode like an array of ``empty()``."""
        with self._torch.inference_mode(False):
            return array.clone()

    def assign(self, target: Any, values: Any) -> None:
        """Overwrite ``target``."""
        target.copy_(values)

    def adopt(self, array: Array, where: str) -> Array:
        """The array as a tensor on the device."""
        if isinstance(array, self._torch.Tensor):
            return plain_tensor(array, where).to(self._device).contiguous()
        return self.from_numpy(np.asarray(host_array(array, where)))

    def free_bytes(self) -> int | None:
        """Bytes free on the device, including bytes that torch holds unused."""
        if self._device.type == "cpu":
            return free_host_bytes()
        cuda = self._torch.cuda
        unused = cuda.memory_reserved(self._device) - cuda.memory_allocated(self._device)
        return int(cuda.mem_get_info(self._device)[0] + unused)


class CupyMemory:
    """Memory of one GPU as CuPy arrays, from CuPy's memory pool.

    CuPy computes on the current device and its current stream, not on the device of an array.
    """

    kind = "cupy"
    moves = False

    def __init__(self, device: str) -> None:
        import cupy

        self._cupy = cupy
        self._index = int(device.partition(":")[2] or 0)

    def __reduce__(self) -> tuple[type[CupyMemory], tuple[str]]:
        """For copies of objects that hold a memory: it is made again, because modules cannot be pickled."""
        return CupyMemory, (f"cuda:{self._index}",)

    def here(self) -> AbstractContextManager[Any]:
        """Make the GPU of the arrays current."""
        return on_device(self._index)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Uninitialised array."""
        with self.here():
            return self._cupy.empty(shape, dtype)

    def allocator(self, arrays: Sequence[tuple[tuple[int, ...], str]]) -> Callable[[], list[Array]]:
        """Return a function that makes fresh arrays."""

        def allocate() -> list[Array]:
            with self.here():
                return list(starmap(self._cupy.empty, arrays))

        return allocate

    def from_numpy(self, values: np.ndarray) -> Array:
        """Array with a copy of host values."""
        with self.here():
            return self._cupy.asarray(values)

    def to_numpy(self, array: Any) -> np.ndarray:
        """Host copy."""
        with self.here():
            return np.asarray(array.get())

    def copy(self, array: Any) -> Array:
        """Copy on the same device."""
        with self.here():
            return array.copy()

    def assign(self, target: Any, values: Any) -> None:
        """Overwrite ``target``."""
        with self.here():
            target[...] = values

    def adopt(self, array: Array, where: str) -> Array:
        """The array on the device."""
        with self.here():
            source = array if describe(array).kind == "cupy" else host_array(array, where)
            return self._cupy.ascontiguousarray(self._cupy.asarray(source))

    def address(self, array: Any, /) -> int:
        """Address of the first byte."""
        return int(array.data.ptr)

    def free_bytes(self) -> int | None:
        """Bytes free on the GPU, including bytes that CuPy's memory pool holds unused."""
        with self.here():
            return int(self._cupy.cuda.runtime.memGetInfo()[0] + self._cupy.get_default_memory_pool().free_bytes())


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a C-contiguous array, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def output_memory(kind: str, device: str) -> Memory:
    """Return the memory of the arrays that kernels write for callers: ``kind``, or tensors that become arrays of that kind.

    Raises:
        DeviceError: CuPy arrays on the CPU, or a device that JAX does not see.
        MissingExtraError: JAX is not installed.
    """
    if kind == "numpy" and device == "cpu":
        return NumpyMemory()
    if kind == "cupy":
        if device == "cpu":
            raise DeviceError('array="cupy" needs a CUDA device, and this env runs on the CPU; use "torch" or "numpy".')
        return CupyMemory(device)
    if kind == "jax":
        from gpu_vecenv.backend.jax_memory import JaxMemory

        return JaxMemory(device)
    return TorchMemory(device)


def public_memory(kind: str, device: str) -> Any:
    """Return the memory of arrays as callers have them, for code that computes with them: on the host for ``"numpy"``."""
    if kind == "jax":
        from gpu_vecenv.backend.jax_memory import JaxArrays

        return JaxArrays(device)
    return output_memory(kind, "cpu" if kind == "numpy" else device)
