"""CUDA back end: kernels compiled by NVRTC through CuPy, launched on the caller's current stream."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_vecenv.backend.base import MaxIndex
from gpu_vecenv.backend.blocks import Blocks, blocks_of, with_scratch
from gpu_vecenv.backend.build_kind import build_kind
from gpu_vecenv.backend.memory import CupyMemory, Memory, TorchMemory
from gpu_vecenv.backend.overlap import may_overlap, overlapped_launch
from gpu_vecenv.backend.private import KEEP_SUBNORMALS, current_device, current_stream, launch_kernel
from gpu_vecenv.backend.private import raw_module as module_of
from gpu_vecenv.backend.registers import Report, choose_limit, resident_blocks
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.errors import CompileError, DeviceError, MissingExtraError, SequenceError
from gpu_vecenv.spec.layout import MODULES, Layout

OPTIONS = ("--std=c++17", "--fmad=false", KEEP_SUBNORMALS)
"""Compiler options: no contraction and no flush of subnormals, as on the CPU. Division and square root are correctly rounded by
default."""


def module_blocks(layout: Layout, module: int) -> Blocks:
    """Return the blocks of one of ``layout.MODULES``."""
    blocks = blocks_of(layout.work, module, layout.requested_lanes, layout.requested_registers)
    return with_scratch(blocks, layout.requested_scratch)


def compile_options(layout: Layout, module: int, blocks: Blocks, limit: int | None = None) -> tuple[str, ...]:
    """Return the NVRTC options for one of ``layout.MODULES``. Sizes are constants; the number of worlds is not.

    ``limit`` is the most registers of a thread: by default what the spec requests, otherwise the usual limit.
    """
    constants = {
        "LANES": blocks.lanes,
        "TEAMS": blocks.teams,
        "MODULE": module,
        "SCRATCH": layout.requested_scratch,
        "RESIDENT": resident_blocks(blocks.lanes * blocks.teams, limit or layout.requested_registers),
        "BY_WORLD": int(bool(layout.per_world)),
        **layout.sizes,
        **layout.choices,
    }
    return (*OPTIONS, *build_kind().cuda_options, *(f"-DGV_{name}={value}" for name, value in constants.items()))


def raw_module(cupy: Any, source: str, options: Sequence[str]) -> Any:
    """Return CuPy's module of a kernel's text, which is compiled, or found in CuPy's cache, when a kernel is first asked for.

    Macros among the options are written before the text: for each new set of options CuPy compiles an empty text to learn the
    version of NVRTC, even if its cache has the kernels.
    """
    macros = [option.removeprefix("-D").partition("=") for option in options if option.startswith("-D")]
    defined = "".join(f"#define {name} {value or 1}\n" for name, _, value in macros)
    return module_of(cupy, defined + source, tuple(option for option in options if not option.startswith("-D")))


def import_cupy() -> Any:
    """Import CuPy.

    Raises:
        MissingExtraError: CuPy is not installed; the message names the extra.
        DeviceError: CuPy would use per-thread default streams, which torch does not use.
    """
    try:
        import cupy
    except ImportError as error:
        raise MissingExtraError(
            'A CUDA device needs CuPy: pip install "gpu-vecenv[cuda13]" (or [cuda12] for a CUDA 12 driver).'
        ) from error
    if os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0"):
        raise DeviceError(
            "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM is set, and torch does not order its work with per-thread default "
            "streams; unset it."
        )
    return cupy


class CudaBackend:
    """Kernels of one env on one GPU."""

    def __init__(self, layout: Layout, device: str, kind: str) -> None:
        cupy = import_cupy()
        import torch

        self.device = device
        self._index = int(device.partition(":")[2])
        self._on_cupy_stream = kind == "cupy"
        self.max_index: MaxIndex | None = None
        self.memory: Memory = CupyMemory(device) if self._on_cupy_stream else TorchMemory(device)
        self._torch = torch
        self._cupy = cupy
        self._current_device, self._torch_stream = current_device(), current_stream()
        # The caller's current stream on a device: CuPy's if the env hands out CuPy arrays, otherwise torch's.
        self._stream = (lambda _: int(cupy.cuda.get_current_stream().ptr)) if self._on_cupy_stream else self._torch_stream
        self._launch = launch_kernel()
        self._args: np.ndarray | None = None
        torch.zeros((), device=device)  # makes torch's context, which CuPy shares
        self._multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        self._blocks = [module_blocks(layout, module) for module in range(len(MODULES))]
        self._overlaps = may_overlap(torch.cuda.get_device_capability(device), cupy.cuda.runtime.driverGetVersion())
        self._layout = layout
        self._modules: list[Any] = []
        self._kernels: dict[str, int] = {}  # handles
        self._grids: dict[tuple[str, int], tuple[int, int, int]] = {}  # by kernel and number of worlds: handle, blocks, threads
        self._load(0)

    def _load(self, module: int) -> None:
        """Compile one of ``MODULES``, or find it in CuPy's cache.

        Its first kernel, that of steps or of rollouts, decides how many registers a thread may use, unless the spec requests a
        limit. CuPy's cache keeps what was compiled for this decision, so later starts compile nothing.
        """
        compiled_by_limit: dict[int | None, tuple[Any, dict[str, Any]]] = {}

        def report(limit: int | None) -> Report:
            compiled_by_limit[limit] = self._compiled(module, limit)
            first = compiled_by_limit[limit][1][MODULES[module][0]]
            return Report(first.num_regs, first.local_size_bytes)

        limit = None
        with self._torch.cuda.device(self._index):  # CuPy gives handles and numbers of the current device
            if self._layout.requested_registers is None:
                blocks = self._blocks[module]
                limit = choose_limit(report, blocks.lanes * blocks.teams)
            else:
                report(None)
            compiled, kernels = compiled_by_limit[limit]
            self._kernels |= {name: kernel.kernel.ptr for name, kernel in kernels.items()}
        self._modules.append(compiled)

    def _compiled(self, module: int, limit: int | None) -> tuple[Any, dict[str, Any]]:
        """One of ``MODULES`` with a limit of registers, and its kernels by name, for the current device."""
        spec, cupy = self._layout.spec, self._cupy
        options = compile_options(self._layout, module, self._blocks[module], limit)
        compiled = raw_module(cupy, kernel_source(spec, build_kind()), options)
        try:
            return compiled, {name: compiled.get_function(name) for name in MODULES[module]}
        except cupy.cuda.compiler.CompileException as error:
            raise CompileError(f"{spec.name}: NVRTC failed:\n{error}") from error

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Queue a kernel over all worlds on the caller's current stream. The struct is copied before this returns."""
        if self._current_device() != self._index:
            with self._torch.cuda.device(self._index):
                self.launch(name, args, num_worlds)
            return
        kernel, blocks, threads = self._grids.get((name, num_worlds)) or self._grid(name, num_worlds)
        if args is not self._args:  # the driver needs an array of addresses of arguments; the only argument is the struct
            self._args = args
            self._pointers = (ctypes.c_void_p * 1)(args.ctypes.data)
            self._pointers_at = ctypes.addressof(self._pointers)
        stream = self._stream(self._index)
        if stream and self._overlaps and self.capturing():  # 0 is the default stream, which is never captured
            overlapped_launch(kernel, blocks, threads, stream, self._pointers_at)
        else:
            self._launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, self._pointers_at, 0)

    def _grid(self, name: str, num_worlds: int) -> tuple[int, int, int]:
        """Find and store the handle of a kernel, the number of blocks and the threads of a block for a number of worlds."""
        module = next(module for module, names in enumerate(MODULES) if name in names)
        if name not in self._kernels:
            if self.capturing():
                raise SequenceError("kernels of rollouts are compiled with the first one; call rollout() once before a capture.")
            self._load(module)
        grid = (self._kernels[name], *self._blocks[module].grid(num_worlds, self._multiprocessors))
        self._grids[name, num_worlds] = grid
        return grid

    def capturing(self) -> bool:
        """True if the caller's current stream is recording a CUDA graph."""
        return self._cupy_captures() if self._on_cupy_stream else self._torch_captures()

    def may_wait(self) -> bool:
        """True if the host may wait for the device: neither torch's nor CuPy's current stream is recording a graph."""
        # torch first: CuPy raises for the default stream while a stream that blocks it is captured.
        return not self._torch_captures() and not self._cupy_captures()

    def _torch_captures(self) -> bool:
        if self._torch_stream(self._current_device()) == 0:
            return False  # the default stream is never captured, and the query takes a microsecond
        return bool(self._torch.cuda.is_current_stream_capturing())

    def _cupy_captures(self) -> bool:
        return bool(self._cupy.cuda.get_current_stream().is_capturing())

    def close(self) -> None:
        """Do nothing: arrays free their own memory."""
