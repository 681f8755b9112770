"""Accuracy and time of both variants of ``kernels/lib/powers.h``: ``python benchmarks/powers.py [--device cuda:0]``.

``gv_`` functions are those of the library; ``other_`` functions, of ``powers_other.h``, have doubles instead of floats or floats
instead of doubles. Prints a Markdown table. Errors are in ulps of the exact result, over a million arguments; NumPy's extended
precision gives the exact result. Times are the fastest of several interleaved rounds, per call: on the CPU by one thread, in a
loop that the compiler may vectorise and in one that it may not; on a GPU by the whole GPU. The first row is the loop alone.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.backend.compiler import FLAGS, cpu_level, find_compiler
from gpu_vecenv.backend.cuda import OPTIONS, import_cupy
from gpu_vecenv.backend.source import KERNEL_FOLDER

HERE = Path(__file__).parent
COUNT = 1_000_000
FUNCTIONS = ("exp", "log", "log2", "pow", "softplus", "tanh")
CALLS = {"the loop alone": "x + y"} | {
    f"{prefix}{name}": f"{prefix}{name}({'x, y' if name == 'pow' else 'x'})" for name in FUNCTIONS for prefix in ("gv_", "other_")
}

CPU_LOOP = """
extern "C" __attribute__((visibility("default")))
void run_{index}(gv_i64 n, const float* in, const float* in2, float* out) {{
    for (gv_i64 i = 0; i < n; ++i) {{ const float x = in[i], y = in2[i]; out[i] = {call}; (void)y; }}
}}"""
CUDA_LOOP = """
extern "C" __global__ void run_{index}(gv_i64 n, const float* in, const float* in2, float* out, gv_i32 repeats, float step) {{
    const gv_i64 i = (gv_i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i], y = in2[i], sum = 0.0f;
    for (gv_i32 repeat = 0; repeat < repeats; ++repeat) {{ sum += {call}; x += step; y += step; }}
    out[i] = sum;
}}"""
REPEATS = 256
"""Calls in each thread of a GPU, so that loads and stores take little of the time."""

Run = Callable[[str, np.ndarray, np.ndarray], np.ndarray]
Timer = Callable[[str, np.ndarray, np.ndarray], float]


def source(loop: str) -> str:
    """The text of all loops."""
    return '#include "powers_other.h"\n' + "\n".join(loop.format(index=i, call=call) for i, call in enumerate(CALLS.values()))


def on_cpu(folder: Path, *flags: str) -> tuple[Run, Timer]:
    """Return functions that run and time a loop on the CPU. The time is in nanoseconds a call."""
    built, compiler = folder / f"{len(flags)}.so", find_compiler()
    if compiler is None:
        raise SystemExit("No C++ compiler was found. Name one in the environment variable CXX.")
    command = [*compiler, *FLAGS, f"-march={cpu_level()}", *flags, f"-I{KERNEL_FOLDER}", f"-I{HERE}", "-", "-o", str(built)]
    subprocess.run(command, input=source(CPU_LOOP), text=True, check=True)
    library = ctypes.CDLL(str(built))

    def call(name: str, arrays: list[np.ndarray]) -> None:
        run = getattr(library, f"run_{list(CALLS).index(name)}")
        run(ctypes.c_int64(len(arrays[0])), *(ctypes.c_void_p(array.ctypes.data) for array in arrays))

    def results(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        call(name, [x, y, out])
        return out

    def elapsed(name: str, x: np.ndarray, y: np.ndarray) -> float:
        arrays = [x[:20_000], y[:20_000], np.empty(20_000, np.float32)]  # they stay in a core's cache
        start = time.perf_counter()
        for _ in range(20):
            call(name, arrays)
        return (time.perf_counter() - start) / (20 * 20_000) * 1e9

    return results, elapsed


def on_cuda(device: str) -> tuple[Run, Timer]:
    """Return functions that run and time a loop on a GPU. The time is in picoseconds a call, of the whole GPU."""
    cupy = import_cupy()
    cupy.cuda.Device(int(device.partition(":")[2] or 0)).use()
    options = (*OPTIONS, "-DGV_LANES=1", "-DGV_TEAMS=128", "-DGV_RESIDENT=1", f"-I{KERNEL_FOLDER}", f"-I{HERE}")
    module = cupy.RawModule(code=source(CUDA_LOOP), options=options)

    def call(name: str, arrays: list[Any], repeats: int, step: float) -> None:
        n, kernel = len(arrays[0]), module.get_function(f"run_{list(CALLS).index(name)}")
        kernel((-(-n // 128),), (128,), (np.int64(n), *arrays, np.int32(repeats), np.float32(step)))

    def results(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = cupy.empty(len(x), cupy.float32)
        call(name, [cupy.asarray(x), cupy.asarray(y), out], 1, 0.0)
        host: np.ndarray = out.get()
        return host

    def elapsed(name: str, x: np.ndarray, y: np.ndarray) -> float:
        arrays = [cupy.asarray(x), cupy.asarray(y), cupy.empty(len(x), cupy.float32)]
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        call(name, arrays, REPEATS, 1e-6)
        begin.record()
        call(name, arrays, REPEATS, 1e-6)
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(begin, end)) / (len(x) * REPEATS) * 1e9

    return results, elapsed


def name_of(call: str) -> str:
    """The function that a row computes; the loop alone gets the arguments of powers."""
    return call.partition("_")[2] or "pow"


@functools.cache
def arguments(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A million arguments, shuffled: half over the range of results, half of common size. y is for ``pow``."""
    random, half = np.random.default_rng(1), COUNT // 2
    wide, y = random.uniform(-87, 88, half), np.ones(COUNT)
    if name == "pow":
        x = np.concatenate([np.exp(random.uniform(-87, 88, half)), random.uniform(0, 4, half)])
        y = np.concatenate([wide / np.log(x[:half]), random.uniform(-4, 4, half)])
    elif name in ("log", "log2"):
        x = np.concatenate([np.exp(wide), random.uniform(0, 4, half)])
    elif name == "tanh":
        x = np.concatenate([random.uniform(-10, 10, half), np.exp(random.uniform(-30, 0, half))])
    else:
        x = np.concatenate([wide, random.uniform(-4, 4, half)])
    order = random.permutation(COUNT)
    return x[order].astype(np.float32), y[order].astype(np.float32)


def exact(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Results in extended precision."""
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    if name == "softplus":
        result = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    else:
        result = np.power(x, y) if name == "pow" else getattr(np, name)(x)
    return np.asarray(result)


def accuracy(run: Run, call: str) -> tuple[float, float]:
    """Largest error in ulps, and the percentage of results that are not the float nearest to the exact result."""
    name = name_of(call)
    x, y = arguments(name)
    result, wanted = run(call, x, y), exact(name, x, y)
    ulp = np.ldexp(1.0, np.maximum(np.frexp(wanted)[1] - 24, -149))
    return float((np.abs(result - wanted) / ulp).max()), 100 * float((result != wanted.astype(np.float32)).mean())


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    if np.finfo(np.longdouble).nmant < 63:
        raise SystemExit("NumPy's longdouble has no extended precision here; run this on an x86-64 processor.")
    with tempfile.TemporaryDirectory() as folder:
        if options.device == "cpu":
            loops = {
                "ns a call, vectors": on_cpu(Path(folder)),
                "ns a call, one by one": on_cpu(Path(folder), "-fno-tree-vectorize", "-fno-tree-slp-vectorize"),
            }
        else:
            loops = {"ps a call": on_cuda(options.device)}
        run = next(iter(loops.values()))[0]
        best = {(call, column): np.inf for call in CALLS for column in loops}
        for _ in range(options.rounds):
            for call, column in best:
                best[call, column] = min(best[call, column], loops[column][1](call, *arguments(name_of(call))))
        print(f"| function | largest error, ulps | not the nearest float | {' | '.join(loops)} |")
        print("|---|---|---|" + "---|" * len(loops))
        for call in CALLS:
            error = "{:.3f} | {:.2g} %".format(*accuracy(run, call)) if "_" in call else "– | –"
            print(f"| {call} | {error} | " + " | ".join(f"{best[call, column]:.3g}" for column in loops) + " |")


if __name__ == "__main__":
    main()
