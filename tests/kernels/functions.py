"""Device functions called from Python: functions.cu, built with the flags of the CPU back end."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from gpu_vecenv.backend.compiler import FLAGS, find_compiler
from gpu_vecenv.backend.source import KERNEL_FOLDER


class Functions:
    """The exports of functions.cu; a call takes and returns arrays of one length."""

    def __init__(self, folder: Path) -> None:
        built = folder / "functions.so"
        compiler = find_compiler()
        assert compiler is not None, "these tests need a C++ compiler"
        source = Path(__file__).with_name("functions.cu")
        command = [*compiler, *FLAGS, "-Wall", "-Wextra", "-I", str(KERNEL_FOLDER), str(source), "-o", str(built)]
        subprocess.run(command, check=True)
        self._library = ctypes.CDLL(str(built))

    def of_host(self, name: str, *args: int | np.ndarray, result: type | None = None):
        """Call an export of any signature: arrays are passed by address, integers as 64-bit numbers."""
        function = getattr(self._library, name)
        function.restype = result
        given = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int64(a) for a in args]
        return function(*given)

    def __call__(self, name: str, *inputs: np.ndarray, dtype: type = np.float32, outputs: int = 1, width: int = 1):
        """Call ``<name>_of`` on rows of elements of ``dtype``; ``width`` is the number of elements of an output row."""
        arrays = [np.ascontiguousarray(values, dtype) for values in inputs]
        rows = len(arrays[0])
        out_dtype = np.uint32 if name == "philox" else np.float64 if dtype is np.float64 else np.float32
        results = [np.empty((rows, width) if width > 1 else rows, out_dtype) for _ in range(outputs)]
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, *results)]
        getattr(self._library, f"{name}_of")(ctypes.c_int64(rows), *addresses)
        return results[0] if outputs == 1 else results
