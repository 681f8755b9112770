"""Launches of programs, from torch code: on the CPU by threads, on CUDA on torch's current stream."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from typing import Any, Protocol

from gpu_vecenv.backend.cpu import load_kernels, num_threads
from gpu_vecenv.backend.overlap import may_overlap, overlapped_launch
from gpu_vecenv.backend.private import current_stream, launch_kernel
from gpu_vecenv.backend.registers import resident_blocks
from gpu_vecenv.backend.source import Program, kernel_source
from gpu_vecenv.backend.threads import Threads
from gpu_vecenv.errors import CompileError, DeviceError

SMALL_BLOCK = 48 * 1024
"""Bytes of shared memory that a block may have without being asked for."""


class Launches(Protocol):
    """Kernels of a program on one device."""

    def launch(self, name: str, args: ctypes.Structure, teams: int, small: bool, shared_bytes: int = 0) -> None:
        """Run a kernel, or queue it on the caller's current stream.

        Args:
            name: entry point of the program.
            args: its argument struct, which is read before this returns.
            teams: number of teams.
            small: True if the work is too little to be shared by CPU threads.
            shared_bytes: memory of a team on CUDA, if the program's ``scratch`` is None.
        """


class CpuProgram:
    """A program on the CPU. Its threads live as long as it, and share the teams of a launch.

    Args:
        program: the kernels.
        threads: number of threads, the caller included; by default ``num_threads()``.

    Raises:
        CompileError, DeviceError, ParameterError: as for an env on the CPU.
    """

    def __init__(self, program: Program, threads: int | None = None) -> None:
        self._library = load_kernels(program)
        self._count = threads or num_threads()
        self._start()

    def _start(self) -> None:
        self._threads = Threads(self._library, self._count) if self._count > 1 else None
        self._one_launch = threading.Lock()
        self._process = os.getpid()

    def launch(self, name: str, args: ctypes.Structure, teams: int, small: bool, shared_bytes: int = 0) -> None:
        """See ``Launches.launch()``; the work is done when this returns."""
        if self._process != os.getpid():  # a forked child has none of the threads, and their lock may have been held
            if self._threads is not None:
                self._threads.forget()
            self._start()
        kernel, address = getattr(self._library, name), ctypes.addressof(args)
        if self._threads is None or small:
            kernel(ctypes.c_void_p(address), ctypes.c_int32(0), ctypes.c_int32(teams))
            return
        with self._one_launch:
            self._threads.launch(ctypes.cast(kernel, ctypes.c_void_p).value, address, teams)


class CudaProgram:
    """A program on one GPU, compiled by NVRTC or found in CuPy's cache.

    Args:
        program: the kernels.
        index: number of the GPU.

    Raises:
        CompileError: the kernels do not compile.
        MissingExtraError, DeviceError: as for an env on CUDA.
    """

    def __init__(self, program: Program, index: int) -> None:
        import torch

        from gpu_vecenv.backend.cuda import import_cupy, raw_module

        cupy = import_cupy()

        self._torch, self._index, self._program = torch, index, program
        self._launch, self._stream = launch_kernel(), current_stream()
        torch.zeros((), device=f"cuda:{index}")  # makes torch's context, which CuPy shares
        self._overlaps = may_overlap(torch.cuda.get_device_capability(index), cupy.cuda.runtime.driverGetVersion())
        self._errors = cupy.cuda.compiler.CompileException
        self._module = raw_module(cupy, kernel_source(program), program_options(program))
        self._kernels: dict[tuple[str, int], int] = {}

    def launch(self, name: str, args: ctypes.Structure, teams: int, small: bool, shared_bytes: int = 0) -> None:
        """See ``Launches.launch()``. The first call of each name loads the kernel, which a CUDA graph cannot record."""
        with self._torch.cuda.device(self._index):
            kernel = self._kernels.get((name, shared_bytes)) or self._load(name, shared_bytes)
            pointers = (ctypes.c_void_p * 1)(ctypes.addressof(args))
            stream, lanes = self._stream(self._index), self._program.lanes
            if stream and self._overlaps and self._torch.cuda.is_current_stream_capturing():
                overlapped_launch(kernel, teams, lanes, stream, ctypes.addressof(pointers), shared_bytes)
            else:
                self._launch(kernel, teams, 1, 1, lanes, 1, 1, shared_bytes, stream, ctypes.addressof(pointers), 0)

    def _load(self, name: str, shared_bytes: int) -> int:
        try:
            function = self._module.get_function(name)
        except self._errors as error:
            raise CompileError(f"{self._program.name}: NVRTC failed:\n{error}") from error
        if shared_bytes > SMALL_BLOCK:
            function.max_dynamic_shared_size_bytes = shared_bytes
            function.preferred_shared_memory_carveout = 100  # all of it, so that several blocks fit
        self._kernels[name, shared_bytes] = int(function.kernel.ptr)
        return self._kernels[name, shared_bytes]


def program_options(program: Program) -> tuple[str, ...]:
    """Return the NVRTC options of a program, whose teams are blocks."""
    from gpu_vecenv.backend.cuda import OPTIONS

    resident = resident_blocks(program.lanes) if program.resident is None else program.resident
    constants = {"LANES": program.lanes, "TEAMS": 1, "RESIDENT": resident}
    constants |= {} if program.env is None else {"LANES": 1, "TILE_LANES": program.lanes}
    constants |= {"GIVEN_SCRATCH": 1} if program.scratch is None else {"SCRATCH": program.scratch}
    return (*OPTIONS, *(f"-DGV_{name}={value}" for name, value in constants.items()))


@functools.cache
def launches(program: Program, device: Any) -> Launches:
    """Return the kernels of a program on a torch device, loaded at the first call.

    Raises:
        CompileError, DeviceError, MissingExtraError, ParameterError: they cannot be loaded; the message holds the cause.
    """
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"{program.name}: expected tensors on the CPU or on CUDA, got {device}.")
    return CpuProgram(program) if device.type == "cpu" else CudaProgram(program, device.index)
