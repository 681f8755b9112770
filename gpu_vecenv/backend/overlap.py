"""Launches that may begin before the previous kernel ends: CUDA's programmatic dependent launch.

A kernel of ours waits for the end of the previous one before it uses what that one wrote, and says when the next one may begin
(``kernels/target/cuda_entry.h``). So the start of a grid overlaps, until its arguments are read. CuPy has no such launch.
"""

from __future__ import annotations

import ctypes
from functools import cache

from gpu_vecenv.backend.driver import LIBRARY

CAPABILITIES = (9,)
"""Major compute capabilities with such launches: Hopper. Earlier GPUs do not have them; later ones were not tested."""

FIRST_DRIVER = 12030
"""CUDA 12.3, the first version whose graphs can hold such launches."""

_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: the value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        *((f"{of}_{axis}", ctypes.c_uint) for of in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


_ALLOWED = _Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 0, 1)


def may_overlap(capability: tuple[int, int], driver: int) -> bool:
    """Return True if graphs can hold such launches, for a compute capability (major, minor) and CUDA's number of the driver."""
    return capability[0] in CAPABILITIES and driver >= FIRST_DRIVER


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL(LIBRARY)


def overlapped_launch(kernel: int, blocks: int, threads: int, stream: int, pointers: int, shared_bytes: int = 0) -> None:
    """Queue a kernel of ours.

    Args:
        kernel: handle of the kernel.
        blocks: blocks of the grid.
        threads: threads of a block.
        stream: handle of the stream.
        pointers: address of the array with the addresses of the arguments.
        shared_bytes: dynamic shared memory of a block.

    Raises:
        RuntimeError: the launch failed; the message holds the driver's error number.
    """
    config = _Config(blocks, 1, 1, threads, 1, 1, shared_bytes, stream, ctypes.addressof(_ALLOWED), 1)
    status = _driver().cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(kernel), ctypes.c_void_p(pointers), None)
    if status:
        raise RuntimeError(f"cuLaunchKernelEx failed with CUDA error {status}.")
