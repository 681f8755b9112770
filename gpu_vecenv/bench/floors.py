"""Floors: least times of a step, from the bandwidth of a copy, an empty node of a CUDA graph and a bare launch from Python.

A loop of arithmetic in Python measures the speed of the host at the same time.
"""

from __future__ import annotations

from typing import Any

import torch

from gpu_vecenv.bench.timing import Local, Timed, interleaved
from gpu_vecenv.vector.outputs.tree import leaves

COPY_BYTES = {"cpu": 2**28, "cuda": 2**30}
"""Bytes of the array that is copied, more than fit into a cache."""

GRAPH_NODES = 1_000
LOOP_TURNS = 100
BARE_ARRAYS = 8

_BARE = r"""extern "C" __global__ void bare(
    const float* a, const float* b, const float* c, const float* d, float* e, float* f, float* g, float* h) {}"""


def measure_floors(device: str, rounds: int, target: float) -> dict[str, float]:
    """Measure the floors of a device.

    Returns:
        ``copy_bytes_per_s``, bytes read and written by a large copy on the device. On CUDA also ``graph_node_s``, an empty kernel
        in a graph, and ``bare_launch_s``, an empty CuPy kernel with eight arrays called from Python.
    """
    subjects: dict[str, Timed] = {"copy": _copy(device)}
    if device != "cpu":
        subjects |= {"bare": bare_launch(device), "graph": _empty_graph(device)}
    seconds: dict[str, float] = {}
    for name, result in interleaved(subjects, rounds, target).items():
        if isinstance(result, Exception):
            raise result
        seconds[name] = result.median
    floors = {"copy_bytes_per_s": 2 * COPY_BYTES[device.partition(":")[0]] / seconds["copy"]}
    if device != "cpu":
        floors |= {"graph_node_s": seconds["graph"] / GRAPH_NODES, "bare_launch_s": seconds["bare"]}
    return floors


def bare_launch(device: str) -> Local:
    """Launches of an empty kernel with eight arrays through CuPy: the least host time of a step called from Python."""
    import cupy

    with torch.cuda.device(device):
        kernel = cupy.RawKernel(_BARE, "bare")
        arrays = tuple(cupy.zeros(16, cupy.float32) for _ in range(BARE_ARRAYS))
    return Local(lambda: kernel((1,), (32,), arrays), device)


def python_loop(device: str) -> Local:
    """Arithmetic in Python alone, which measures the speed of the host."""

    def call() -> None:
        total = 0
        for i in range(LOOP_TURNS):
            total += i * i

    return Local(call, device)


def step_bytes(env: Any, results: tuple[Any, ...], action_bytes: int, steps: int = 1) -> dict[str, float]:
    """Return the bytes that a step must move: ``state``, ``results`` and ``actions``.

    A launch reads and writes the state once. Each step writes its results and reads its actions.

    The state is the env's own fields, its metrics so far and the time ``t``. Seeds, episode numbers, and metrics and final
    observations and masks of ended episodes are not counted, because few worlds start an episode in a step.

    Args:
        env: a ``GpuVectorEnv`` that was reset.
        results: tuple returned by one of its steps.
        action_bytes: bytes of one step's actions; 0 if the kernel draws and does not store them.
        steps: steps of a launch.
    """
    fields = env.get_state("t", *(field.name for field in env.env_spec.all_state)).values()
    *arrays, info = results
    same = "_episode" if "_final_obs" in info else None  # both are the same array
    arrays += [array for name, array in info.items() if name not in ("episode", same) and not name.startswith("final_")]
    return {
        "state": 2 * sum(field.nbytes for field in fields) / steps,
        "results": sum(array.nbytes for tree in arrays for array in leaves(tree)),
        "actions": action_bytes,
    }


def _copy(device: str) -> Local:
    source = torch.zeros(COPY_BYTES[device.partition(":")[0]], dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    return Local(lambda: target.copy_(source), device)


def _empty_graph(device: str) -> Local:
    """Empty kernels in one graph, so many that the start of the graph is negligible."""
    import cupy

    with torch.cuda.device(device):
        kernel = cupy.RawKernel(_BARE, "bare")
        arrays = tuple(cupy.zeros(16, cupy.float32) for _ in range(BARE_ARRAYS))
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            kernel((1,), (32,), arrays)
            stream.synchronize()
            stream.begin_capture()
            for _ in range(GRAPH_NODES):
                kernel((1,), (32,), arrays)
            graph = stream.end_capture()

    def launch() -> None:
        with stream:
            graph.launch()

    return Local(launch, device)
