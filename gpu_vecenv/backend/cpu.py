"""CPU back end: the same kernels, one lane a world, worlds split over threads that live as long as the env."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np

from gpu_vecenv.backend.base import Largest
from gpu_vecenv.backend.compiler import cache_dir, compile_object, cpu_level, shared_object
from gpu_vecenv.backend.memory import Memory, NumpyMemory
from gpu_vecenv.backend.threads import Threads
from gpu_vecenv.errors import CompileError, ParameterError
from gpu_vecenv.layout import KERNELS, Layout
from gpu_vecenv.spec import EnvSpec

MIN_AGENTS_PER_THREAD = 1024
"""Waking a thread costs some ten microseconds; below this many agents it takes longer than it saves."""


def num_threads() -> int:
    """Threads for kernels: ``GPU_VECENV_NUM_THREADS``, else the cores this process may use."""
    given = os.environ.get("GPU_VECENV_NUM_THREADS")
    if given is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not given.isdigit() or int(given) < 1:
        raise ParameterError(f"GPU_VECENV_NUM_THREADS must be a positive integer, got {given!r}.")
    return int(given)


def _load(built: Path, spec: EnvSpec) -> ctypes.CDLL:
    """The library; a damaged one in the cache is compiled again, once."""
    try:
        return ctypes.CDLL(str(built))
    except OSError as error:
        if built.parent != cache_dir():
            raise CompileError(f"{spec.name}: {built} cannot be loaded: {error}. Install the package again.") from error
        return ctypes.CDLL(str(compile_object(spec, cpu_level(), built)))


class CpuBackend:
    """Kernels of one env, compiled for this processor.

    Args:
        layout: the env.
        built: shared object to load; by default the prebuilt or cached one.
        threads: threads to split worlds over; by default ``num_threads()``. A build with ``-DGV_LANES`` makes threads
            of its own and takes 1.
    """

    device = "cpu"

    def __init__(self, layout: Layout, built: Path | None = None, threads: int | None = None) -> None:
        library = _load(built or shared_object(layout.spec), layout.spec)
        self.memory: Memory = NumpyMemory()
        self.largest: Largest | None = library.gv_largest
        library.gv_largest.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
        library.gv_largest.restype = ctypes.c_uint64
        self._kernels = {}
        self._entries: dict[str, int | None] = {}
        for name in KERNELS:
            kernel = getattr(library, name)
            kernel.argtypes = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)
            kernel.restype = None
            self._kernels[name] = kernel
            self._entries[name] = ctypes.cast(kernel, ctypes.c_void_p).value
        self._agents = layout.num_agents
        self._threads = threads or num_threads()
        self._pool = Threads(library, self._threads) if self._threads > 1 else None
        self._struct: np.ndarray | None = None
        self._address = 0

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Run a kernel over all worlds; returns when it is done. ``args`` is the argument struct (0-d structured array)."""
        if args is not self._struct:  # to ask for an address takes microseconds
            self._struct, self._address = args, args.ctypes.data
        kernel = self._kernels[name]
        if self._pool is None or num_worlds * self._agents < 2 * MIN_AGENTS_PER_THREAD:
            kernel(self._address, 0, num_worlds)
        else:
            self._pool.launch(self._entries[name], self._address, num_worlds)

    def capturing(self) -> bool:
        """There are no graphs on the CPU."""
        return False

    def may_wait(self) -> bool:
        """There is nothing to wait for."""
        return True

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
