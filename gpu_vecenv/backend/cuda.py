"""CUDA back end: kernels compiled by NVRTC through CuPy, launched on the caller's current stream."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

from gpu_vecenv.backend.base import Largest
from gpu_vecenv.backend.memory import CupyMemory, Memory, TorchMemory
from gpu_vecenv.backend.overlap import may_overlap, overlapped_launch
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.errors import CompileError, DeviceError, MissingExtraError, ParameterError, SequenceError
from gpu_vecenv.layout import PARTS, Layout

OPTIONS = ("--std=c++17", "--fmad=false")
"""No contraction, as on the CPU. Division and square root are correctly rounded by default."""


STEP_BLOCK, ROLLOUT_BLOCK = 128, 768
"""Threads of a block of worlds of one agent, those of a rollout at most."""


def block_shape(num_agents: int, part: int) -> tuple[int, int]:
    """(lanes a team, teams a block): small worlds share a block, larger ones take one, the largest stride over it.

    In rollouts, the second of ``layout.PARTS``, worlds of one agent share the largest block that a multiprocessor has registers
    for, or one of fewer (``rollout_block``): its warps go step by step together, so that what they write is one long run.

    ``GPU_VECENV_BLOCK_SIZE`` sets the threads of a block, up to 256 where worlds of several agents share it, as each of them
    has its part of the block's shared memory; results do not depend on it.
    """
    given = os.environ.get("GPU_VECENV_BLOCK_SIZE")
    if given is not None and given not in ("32", "64", "128", "256", "512", "1024"):
        raise ParameterError(f"GPU_VECENV_BLOCK_SIZE must be a power of two from 32 to 1024, got {given!r}.")
    if num_agents <= 32:
        lanes = 1 << (num_agents - 1).bit_length()
        return lanes, int(given or (STEP_BLOCK, ROLLOUT_BLOCK)[part]) if lanes == 1 else min(int(given or 128), 256) // lanes
    return int(given) if given else min(256, -(-num_agents // 32) * 32), 1


def rollout_block(num_worlds: int, most: int, multiprocessors: int) -> int:
    """Threads of a block, a multiple of 32 up to ``most``, with which a rollout loads all multiprocessors alike.

    Worlds that fit all at once are one block to a multiprocessor. More of them come in rounds of two blocks, of which one
    begins while the other ends.
    """
    rounds = -(-num_worlds // (multiprocessors * most))
    blocks = multiprocessors * (rounds if rounds == 1 else 2 * rounds)
    return 32 * -(-num_worlds // (32 * blocks))


def resident_blocks(threads: int) -> int:
    """Blocks that a multiprocessor must have room for, which bounds the registers of a thread.

    More blocks hide more of each other's waits; fewer leave registers to large worlds, for their lists of neighbours. These
    bounds were the fastest on an H100 for steps and for rollouts: 56 registers up to 128 threads, 80 above. Turing, whose
    multiprocessors hold 1,024 threads, ignores the first.
    """
    return max(1, (1152 if threads <= 128 else 768) // threads)


def compile_options(layout: Layout, part: int) -> tuple[str, ...]:
    """NVRTC options for one of ``layout.PARTS``: sizes that shape loops are constants; the number of worlds never is."""
    lanes, teams = block_shape(layout.num_agents, part)
    constants = {
        "LANES": lanes,
        "TEAMS": teams,
        "PART": part,
        "RESIDENT": resident_blocks(lanes * teams),
        "BY_WORLD": int(bool(layout.per_world)),
        **layout.sizes,
    }
    return (*OPTIONS, *(f"-DGV_{name}={value}" for name, value in constants.items()))


def import_cupy() -> Any:
    """CuPy, or an error that names the extra to install.

    Raises:
        MissingExtraError: CuPy is not installed.
        DeviceError: CuPy would use per-thread default streams, which torch does not know.
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
        from cupy_backends.cuda.api import driver

        self.device = device
        self._index = int(device.partition(":")[2])
        self._on_cupy_stream = kind == "cupy"
        self.largest: Largest | None = None
        self.memory: Memory = CupyMemory(device) if self._on_cupy_stream else TorchMemory(device)
        self._torch = torch
        self._cupy = cupy
        self._launch = driver.launchKernel
        self._args: np.ndarray | None = None
        torch.zeros((), device=device)  # makes torch's context, which CuPy shares
        self._multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        self._spreads_rollouts = layout.num_agents == 1 and "GPU_VECENV_BLOCK_SIZE" not in os.environ
        self._overlaps = may_overlap(torch.cuda.get_device_capability(device), cupy.cuda.runtime.driverGetVersion())
        self._layout = layout
        self._modules: list[Any] = []
        self._kernels: dict[str, tuple[int, int, int]] = {}  # handle, lanes a team, teams a block
        self._load(0)

    def _load(self, part: int) -> None:
        """Compile one of ``PARTS``, or find it in CuPy's cache."""
        spec, cupy = self._layout.spec, self._cupy
        lanes, teams = block_shape(self._layout.num_agents, part)
        with cupy.cuda.Device(self._index):
            module = cupy.RawModule(code=kernel_source(spec), options=compile_options(self._layout, part))
            try:
                self._kernels |= {name: (module.get_function(name).kernel.ptr, lanes, teams) for name in PARTS[part]}
            except cupy.cuda.compiler.CompileException as error:
                raise CompileError(f"{spec.name}: NVRTC failed:\n{error}") from error
        self._modules.append(module)

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Queue a kernel over all worlds on the caller's current stream. The struct is copied when this returns."""
        if self._torch._C._cuda_getDevice() != self._index:
            with self._torch.cuda.device(self._index):
                self.launch(name, args, num_worlds)
            return
        if name not in self._kernels:
            if self.capturing():
                raise SequenceError("kernels of rollouts are compiled with the first one; call rollout() once before a capture.")
            self._load(next(part for part, names in enumerate(PARTS) if name in names))
        if args is not self._args:  # the driver takes an array with the addresses of a kernel's arguments: of the one struct
            self._args = args
            self._pointers = (ctypes.c_void_p * 1)(args.ctypes.data)
            self._pointers_at = ctypes.addressof(self._pointers)
        kernel, lanes, teams = self._kernels[name]
        if self._spreads_rollouts and name == "gv_rollout":
            teams = rollout_block(num_worlds, teams, self._multiprocessors)
        blocks, threads = -(-num_worlds // teams), lanes * teams
        stream = self._stream()
        if self._overlaps and stream and self.capturing():
            overlapped_launch(kernel, blocks, threads, stream, self._pointers_at)
        else:
            self._launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, self._pointers_at, 0)

    def _stream(self) -> int:
        """Handle of the caller's current stream: torch's, or CuPy's when the env hands out CuPy arrays."""
        if self._on_cupy_stream:
            return int(self._cupy.cuda.get_current_stream().ptr)
        # The handle that torch.cuda.current_stream().cuda_stream gives, without making a stream object for it.
        return int(self._torch._C._cuda_getCurrentRawStream(self._index))

    def capturing(self) -> bool:
        """Whether the caller's current stream records a CUDA graph."""
        if self._on_cupy_stream:
            return bool(self._cupy.cuda.get_current_stream().is_capturing())
        if self._torch._C._cuda_getCurrentRawStream(self._torch._C._cuda_getDevice()) == 0:
            return False  # the default stream is never captured, and to ask takes a microsecond
        return bool(self._torch.cuda.is_current_stream_capturing())

    def close(self) -> None:
        """Nothing to stop; memory goes with the arrays."""
