"""Back ends of debug builds, in which a wrong index of a hook leaves the call of the env as an error."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.backend.build_kind import BuildKind
from gpu_vecenv.backend.cpu import CpuBackend, load_kernels
from gpu_vecenv.backend.cuda import CudaBackend
from gpu_vecenv.errors import CompileError, DeviceError, HookFault, ParameterError
from gpu_vecenv.spec.layout import Layout

RECORD = "gv_fault_record"

MOST_LANES = 1 << 20
"""Lanes of a launch on a GPU, ``GV_MOST_LANES`` of kernels/target/debug.h."""


class FaultRecord(ctypes.Structure):
    """``GvFault`` of kernels/target/debug.h."""

    _fields_ = [("set", ctypes.c_int32), ("text", ctypes.c_char * 512)]


class DebugCpuBackend(CpuBackend):
    """Kernels of a debug build on the CPU.

    Raises:
        CompileError: as for ``CpuBackend``, or the library of a sanitizer is not loaded.
    """

    def __init__(self, layout: Layout, kind: BuildKind) -> None:
        if kind.sanitizer not in _loaded_libraries():
            raise CompileError(
                f"{layout.spec.name}: kernels of the kind {kind.name} need the library of the sanitizer in Python, which "
                f"gpu-vecenv debug --{kind.name} loads."
            )
        library = load_kernels(layout.spec, kind)
        super().__init__(layout, library, kind.threads)
        self._record = FaultRecord.in_dll(library, RECORD)
        self._kernel = layout.spec.kernel

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Run a kernel over all worlds.

        Raises:
            HookFault: a hook used an index outside of an array.
        """
        super().launch(name, args, num_worlds)
        if self._record.set:
            self._record.set = 0
            raise _fault(self._record, self._kernel)


def _fault(record: FaultRecord, kernel: Path) -> HookFault:
    """Return the error of a fault. A row that is written whole does not know its line, but has a file."""
    text = record.text.decode(errors="replace")
    return HookFault(f"{text}." if re.match(r"[^ ]+:[0-9]+: ", text) else f"{kernel.name}: {text}.")


def _loaded_libraries() -> str:
    """Return the names of files in the memory of this process whose names look like a sanitizer's."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return " ".join(line for line in lines if Path(line.split()[-1]).name.startswith(("libasan", "libtsan", "libclang_rt")))


class DebugCudaBackend(CudaBackend):
    """Kernels of a debug build on a GPU. Each launch waits for the device, except while a graph is captured."""

    def __init__(self, layout: Layout, device: str, kind: str, build: BuildKind) -> None:
        if build.sanitizer:
            raise ParameterError(
                f'{layout.spec.name}: kernels of the kind {build.name} run on device="cpu", got {device!r}. '
                "On a GPU, compute-sanitizer checks memory and races."
            )
        super().__init__(layout, device, kind)

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Run a kernel over all worlds and wait for it.

        Raises:
            HookFault: a hook used an index outside of an array.
            DeviceError: the launch has more lanes than a debug build.
        """
        _, blocks, threads = self._grids.get((name, num_worlds)) or self._grid(name, num_worlds)
        if blocks * threads > MOST_LANES:
            raise DeviceError(
                f"{self._layout.spec.name}: debug kernels have at most {MOST_LANES:,} lanes, got {blocks * threads:,} for "
                f"{num_worlds:,} worlds."
            )
        super().launch(name, args, num_worlds)
        if not self.may_wait():
            return
        self._torch.cuda.synchronize(self._index)
        for module in self._modules:
            self._raise_fault(module)

    def _raise_fault(self, module: Any) -> None:
        """Raise the fault that kernels of a module recorded, and clear it."""
        memory = module.get_global(RECORD)
        letters = self._cupy.ndarray((ctypes.sizeof(FaultRecord),), self._cupy.uint8, memory)
        record = FaultRecord.from_buffer_copy(letters.get().tobytes())
        if record.set:
            letters[:4] = 0
            raise _fault(record, self._layout.spec.kernel)
