"""Calls of programs from torch code: on the CPU by threads, on CUDA on torch's current stream."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gpu_vecenv.backend.cpu import load_kernels, num_threads
from gpu_vecenv.backend.overlap import may_overlap, overlapped_launch
from gpu_vecenv.backend.private import current_device, current_stream, launch_kernel
from gpu_vecenv.backend.registers import resident_blocks
from gpu_vecenv.backend.source import Program, kernel_source
from gpu_vecenv.backend.threads import Threads
from gpu_vecenv.errors import ArrayTypeError, CompileError, DeviceError, ShapeError
from gpu_vecenv.spec.arguments import NAME, Array, Struct

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
        self._kernels: dict[str, tuple[Any, int]] = {}
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
        kernel, entry = self._kernels.get(name) or self._find(name)
        if self._threads is None or small:
            kernel(ctypes.addressof(args), 0, teams)
            return
        with self._one_launch:
            self._threads.launch(entry, ctypes.addressof(args), teams)

    def _find(self, name: str) -> tuple[Any, int]:
        kernel = getattr(self._library, name)
        kernel.argtypes, kernel.restype = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32), None
        self._kernels[name] = kernel, ctypes.cast(kernel, ctypes.c_void_p).value or 0
        return self._kernels[name]


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
        self._launch, self._stream, self._current_device = launch_kernel(), current_stream(), current_device()
        torch.zeros((), device=f"cuda:{index}")  # makes torch's context, which CuPy shares
        self._overlaps = may_overlap(torch.cuda.get_device_capability(index), cupy.cuda.runtime.driverGetVersion())
        self._errors = cupy.cuda.compiler.CompileException
        self._module = raw_module(cupy, kernel_source(program), program_options(program))
        self._kernels: dict[tuple[str, int], int] = {}

    def launch(self, name: str, args: ctypes.Structure, teams: int, small: bool, shared_bytes: int = 0) -> None:
        """See ``Launches.launch()``. The first call of each name loads the kernel, which a CUDA graph cannot record."""
        if self._current_device() != self._index:
            with self._torch.cuda.device(self._index):
                self.launch(name, args, teams, small, shared_bytes)
            return
        kernel = self._kernels.get((name, shared_bytes)) or self._load(name, shared_bytes)
        pointers = ctypes.c_void_p(ctypes.addressof(args))  # an array of addresses of arguments; the only one is the struct
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
    constants |= {"GIVEN_SCRATCH": 1} if program.scratch is None else {}
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


class Call:
    """Arguments of a program's kernels, and their launches on one device.

    Attributes:
        args: the argument struct. Numbers may be written at any time. An address that is not written by ``set()`` is not checked.
    """

    def __init__(self, program: Program, device: Any, **members: Any) -> None:
        """Prepare launches.

        Args:
            program: the kernels, which the first launch loads.
            device: torch device of all arrays.
            members: see ``set()``.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: an array does not fit.
        """
        self.program, self.device, self.args = program, device, program.args.form()
        self._writers = program.writers.setdefault(device, {})
        self._launches: Launches | None = None
        self._members = members  # a queued kernel reads arrays before their memory is used again
        self._write(members)

    def set(self, **members: Any) -> None:
        """Write members of the struct: numbers, and addresses of tensors; None is a null address.

        A struct in the struct is given by a dict of its members, or by its form, whose address is not checked.

        The size of an array is checked against the numbers that come with it, or else against those that the struct holds.

        Raises:
            ShapeError: an array has another size, or gaps that no member tells.
            ArrayTypeError, DeviceError: it has another dtype, or is on another device.
        """
        self._write(members)
        self._members.update(members)

    def _write(self, members: dict[str, Any]) -> None:
        names = tuple(members)
        write = self._writers.get(names)
        if write is None:
            write = self._writers[names] = writer(self.program.args, f"{self.program.name}: ", names, self.device)
        write(self.args, *members.values())

    def launch(self, name: str, teams: int, work: int = 0, shared_bytes: int = 0) -> None:
        """Run a kernel, or queue it on the caller's current stream; without teams nothing happens.

        Args:
            name: entry point of the program.
            teams: number of teams.
            work: numbers that the kernel computes. CPU threads share it from ``Program.small`` on.
            shared_bytes: memory of a team on CUDA, if the program's ``scratch`` is None.

        Raises:
            CompileError, DeviceError, MissingExtraError, ParameterError: see ``launches()``.
        """
        if teams:
            self.args.teams = teams
            self._launches = self._launches or launches(self.program, self.device)
            self._launches.launch(name, self.args, teams, work < self.program.small, shared_bytes)


@functools.cache
def writer(struct: Struct, where: str, names: tuple[str, ...], device: Any) -> Callable[..., None]:
    """Return a function that writes some members to a form of a struct, see ``Call.set()``.

    It is compiled for these members, without loops and look-ups, because checks are most of the host time of a call.

    Args:
        struct: the struct.
        where: start of messages, before the name of a member.
        names: members to write, in order.
        device: torch device of the arrays.
    """
    dtypes, lines = _dtypes(device.type), [f"def write(args, {', '.join(names)}):"]
    scope: dict[str, Any] = {"device": device, "refuse": _refuse}
    for name in names:
        array, nested = struct.arrays.get(name), struct.nested.get(name)
        if nested is not None:
            scope[f"write_{name}"] = functools.partial(_write_nested, nested, f"{where}{name}.", device)
            lines.append(f"    if type({name}) is dict: write_{name}(args.{name}, {name})")
            lines.append(f"    else: args.{name} = {name}")
        elif array is None:
            lines.append(f"    args.{name} = {name}")
        else:
            dtype, count = dtypes.get(array.dtype), array.count
            count = count and re.sub(NAME, lambda match: match[0] if match[0] in names else f"args.{match[0]}", count)
            scope[f"expected_{name}"] = f"{where}{name}", array, dtype, device
            wrong = [f"{name}.device != device", *([] if array.strided else [f"not {name}.is_contiguous()"])]
            if dtype is not None:
                scope[f"dtype_{name}"] = dtype
                wrong.append(f"{name}.dtype is not dtype_{name}")
                wrong += [] if count is None else [f"{name}.nbytes != {dtype.itemsize} * ({count})"]
            lines += [
                f"    if {name} is None: args.{name} = None",
                f"    elif {' or '.join(wrong)}: refuse({name}, {count}, *expected_{name})",
                f"    else: args.{name} = {name}.data_ptr()",
            ]
    exec("\n".join([*lines, "    return"]), scope)  # names and extents are those of a declaration
    write: Callable[..., None] = scope["write"]
    return write


def _write_nested(struct: Struct, where: str, device: Any, args: Any, members: Mapping[str, Any]) -> None:
    writer(struct, where, tuple(members), device)(args, *members.values())


def _refuse(value: Any, count: int | None, name: str, array: Array, dtype: Any, device: Any) -> None:
    if dtype is not None and value.dtype != dtype:
        raise ArrayTypeError(f"{name} must be {dtype}, got {value.dtype}.")
    if value.device != device:
        raise DeviceError(f"{name} must be on {device}, got {value.device}.")
    if count is not None and value.numel() != count:
        raise ShapeError(f"{name} must have {count} numbers, [{array.shape}], got shape {tuple(value.shape)}.")
    raise ShapeError(f"{name} must be contiguous, got strides {value.stride()}.")


@functools.cache
def _dtypes(kind: str) -> dict[str, Any]:
    """Return torch's dtypes by the names in declarations, on one kind of device. Seeds are uint64, which torch keeps as int64."""
    import torch

    names = ("float32", "float64", "int32", "int64", "uint8", "bool")
    dtypes = {name: getattr(torch, name) for name in names}
    return dtypes | {"uint64": torch.int64, "half": torch.float16 if kind == "cuda" else torch.float32}
