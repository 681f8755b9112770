"""CPU back end: the same kernels with one lane a world. Threads share the worlds of a launch and live as long as the env."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import re
import weakref
from pathlib import Path

import numpy as np

from gpu_vecenv.backend import cache, compiler
from gpu_vecenv.backend.base import MaxIndex
from gpu_vecenv.backend.build_kind import BuildKind, build_kind
from gpu_vecenv.backend.memory import Memory, NumpyMemory
from gpu_vecenv.backend.source import Program
from gpu_vecenv.backend.threads import Threads
from gpu_vecenv.errors import CompileError, ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import KERNELS, Layout

MIN_AGENTS_PER_THREAD = 1024
"""Below this many agents a thread saves less time than the ten microseconds or so that it takes to wake it."""

MAX_KERNEL_THREADS = 4096
"""Largest thread count that is accepted; no machine has so many cores."""


def num_threads() -> int:
    """Return the number of threads for kernels: ``GPU_VECENV_NUM_THREADS``, else the cores that this process may use.

    Raises:
        ParameterError: the variable is not an integer from 1 to 4096.
    """
    text = os.environ.get("GPU_VECENV_NUM_THREADS")
    if text is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not re.fullmatch("[1-9][0-9]{0,3}", text) or int(text) > MAX_KERNEL_THREADS:
        raise ParameterError(f"GPU_VECENV_NUM_THREADS must be an integer from 1 to {MAX_KERNEL_THREADS}, got {text!r}.")
    return int(text)


def load_kernels(spec: EnvSpec | Program, kind: BuildKind | None = None) -> ctypes.CDLL:
    """Load compiled kernels: prebuilt with the package, or compiled at first use and kept in the cache.

    ``kind`` of the build of an env is by default ``build_kind()``.

    If they cannot be compiled, cached ones of another compiler are loaded; their results have the same bits.

    Raises:
        CompileError: the kernels cannot be compiled, stored or loaded; the message holds the cause and the remedy.
    """
    kind, level = kind or build_kind(), compiler.cpu_level(compiler.levels_of(spec))
    prebuilt = compiler.PREBUILT / compiler.object_name(spec, level)
    if not kind.debug and prebuilt.is_file():
        return _load(prebuilt, spec)
    name = compiler.object_name(spec, level, kind)
    try:
        return _compiled(spec, name, kind)
    except CompileError:
        for other in sorted(cache.cache_dir().glob(f"{glob.escape(Path(name).stem)}-*.so")):
            with contextlib.suppress(OSError):
                return cache.load(other)
        raise


def _load(built: Path, spec: EnvSpec | Program) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(built))
    except OSError as error:
        raise CompileError(f"{spec.name}: {built} cannot be loaded: {error}. Install the package again.") from error


def _compiled(spec: EnvSpec | Program, name: str, kind: BuildKind) -> ctypes.CDLL:
    """Load kernels from the cache, or compile them if the cache has none that may be loaded."""
    path = cache.cache_dir() / compiler.name_by_compiler(name, compiler.require_compiler(spec))
    with contextlib.suppress(OSError):
        return cache.load(path)
    built = compiler.compile_to_bytes(spec, compiler.cpu_level(compiler.levels_of(spec)), kind=kind)
    try:
        cache.store(path, built)
    except OSError as error:
        raise CompileError(f"{spec.name}: compiled kernels cannot be stored in {path.parent}: {error}. {cache.REMEDY}") from error
    try:
        return cache.load(path)
    except OSError as error:
        raise CompileError(
            f"{spec.name}: the kernel just compiled cannot be loaded from {path.parent}: {error}. {cache.REMEDY} "
            "If that does not help, name another compiler in CXX."
        ) from error


class CpuBackend:
    """Kernels of one env, compiled for this processor.

    Args:
        layout: sizes of the env.
        built: shared object to load, or one that is loaded; by default the prebuilt or cached one.
        threads: number of threads that share worlds; by default ``num_threads()``. A build with ``-DGV_LANES`` makes its own
            threads and takes 1.

    Attributes:
        threads: the threads; None if the caller steps all worlds.

    Raises:
        CompileError: the kernels cannot be compiled, stored or loaded.
        DeviceError: the system starts fewer threads.
        ParameterError: ``GPU_VECENV_NUM_THREADS`` is not an integer from 1 to 4096.
    """

    device = "cpu"

    def __init__(self, layout: Layout, built: Path | ctypes.CDLL | None = None, threads: int | None = None) -> None:
        library = _load(built, layout.spec) if isinstance(built, Path) else built or load_kernels(layout.spec)
        self.memory: Memory = NumpyMemory()
        self.max_index: MaxIndex | None = library.gv_max_index
        library.gv_max_index.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
        library.gv_max_index.restype = ctypes.c_uint64
        self._kernels = {}
        self._entries: dict[str, int | None] = {}
        for name in KERNELS:
            kernel = getattr(library, name)
            kernel.argtypes = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)
            kernel.restype = None
            self._kernels[name] = kernel
            self._entries[name] = ctypes.cast(kernel, ctypes.c_void_p).value
        self._agents = layout.num_agents
        count = threads or num_threads()
        self.threads = Threads(library, count) if count > 1 else None
        _backends.add(self)
        self._struct: np.ndarray | None = None
        self._address = 0

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Run a kernel over all worlds and return when it is done. ``args`` is the argument struct, a 0-d structured array."""
        if args is not self._struct:  # finding the address takes microseconds
            self._struct, self._address = args, args.ctypes.data
        kernel = self._kernels[name]
        if self.threads is None or num_worlds * self._agents < 2 * MIN_AGENTS_PER_THREAD:
            kernel(self._address, 0, num_worlds)
        else:
            self.threads.launch(self._entries[name], self._address, num_worlds)

    def capturing(self) -> bool:
        """Return False: the CPU has no graphs."""
        return False

    def may_wait(self) -> bool:
        """Return True: launches return when they are done."""
        return True

    def close(self) -> None:
        """Stop the threads."""
        if self.threads is not None:
            self.threads.close()
            self.threads = None

    def forget_threads(self) -> None:
        """In a forked child, which has none of the threads: run launches on the calling thread."""
        if self.threads is not None:
            self.threads.forget()
            self.threads = None


_backends: weakref.WeakSet[CpuBackend] = weakref.WeakSet()


def _forget_threads() -> None:
    for backend in list(_backends):
        backend.forget_threads()


os.register_at_fork(after_in_child=_forget_threads)
