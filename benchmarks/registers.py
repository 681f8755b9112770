"""Times of steps and rollouts with several limits of registers: ``python benchmarks/registers.py WarpTag-v0 --worlds 10000``.

``--env name=value`` sets parameters. Each limit has a line: registers and bytes of local memory of a thread, and the time of a
step in a CUDA graph and in a rollout with random actions, in microseconds and as a multiple of a copy. The copy is in a graph,
too, and moves as many bytes as a step with int32 actions; steps and copies are timed in turn. ``usual`` is the limit of envs that
do not spill, and ``chosen`` what the back end takes by the compiler's reports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro

sys.path.insert(0, str(Path(__file__).parent.parent))

import gpu_vecenv.backend.cuda as cuda  # noqa: E402
from gpu_vecenv import GpuVectorEnv, capture_steps  # noqa: E402
from gpu_vecenv.bench.floors import step_bytes  # noqa: E402
from gpu_vecenv.cli.key_value import parse_settings  # noqa: E402
from gpu_vecenv.vector.outputs.tree import leaves, tree_map  # noqa: E402


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    env_id: tyro.conf.Positional[str]
    """Id of the env, or MODULE:ID."""
    env: tuple[str, ...] = ()
    """Parameters of the env, NAME=VALUE."""
    worlds: int = 10_000
    limits: tuple[str, ...] = ("usual", "chosen", "64", "80", "96", "128")
    """Limits: a number, usual or chosen."""
    steps: int = 20
    """Steps of a graph and of a rollout."""
    rounds: int = 30
    device: str = "cuda:0"


def microseconds(call: Callable[[], Any], steps: int) -> float:
    """Time of a step of a call with several."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / steps * 1e3


def copies(nbytes: int, options: Options) -> Callable[[], None]:
    """Return a graph of copies that read and write ``nbytes`` bytes each."""
    source = torch.zeros(nbytes // 2, dtype=torch.uint8, device=options.device)
    target, graph = torch.zeros_like(source), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(options.steps):
            target.copy_(source)
    return graph.replay


@contextmanager
def choice(limit: str) -> Iterator[None]:
    """Let kernels of envs have the usual limit if ``limit`` says so."""
    choose = cuda.choose_limit
    if limit == "usual":
        cuda.choose_limit = lambda report, threads: report(None) and None
    try:
        yield
    finally:
        cuda.choose_limit = choose


def limited_env(limit: str, options: Options) -> GpuVectorEnv[Any]:
    """Return an env whose kernels have a limit of registers, after a rollout of one step, with which worlds differ."""
    params = parse_settings(options.env, "--env")
    spec = gymnasium.make_vec(options.env_id, num_envs=1, device="cpu", **params).unwrapped.env_spec
    if limit.isdigit():
        spec = replace(spec, registers=lambda params: int(limit))
    with choice(limit):
        env = GpuVectorEnv(spec, num_envs=options.worlds, device=options.device, copy=False, **params)
        env.reset(seed=0)
        env.rollout(num_steps=1)
    return env


def used(env: GpuVectorEnv[Any], name: str, module: int) -> str:
    """Registers and bytes of local memory of a kernel."""
    kernel = env.worlds.backend._modules[module].get_function(name)
    return f"{kernel.num_regs} + {kernel.local_size_bytes} bytes"


def measure(limit: str, options: Options) -> None:
    """Print the line of a limit. Slabs of the graph are freed before those of the rollout are made."""
    env = limited_env(limit, options)
    drawn = env.rollout(num_steps=1)[4]["actions"]
    one = tree_map(lambda array: array[0].clone(), drawn)
    moved = int(sum(step_bytes(env, env.step(one), sum(array.nbytes for array in leaves(one))).values()))
    graph, floor = capture_steps(env, options.steps), copies(moved, options)
    for slab, choices in zip(leaves(graph.actions), leaves(drawn), strict=True):
        slab.copy_(choices.expand(slab.shape))
    calls = graph.replay, floor
    rounds = [[microseconds(call, options.steps) for call in calls] for _ in range(options.rounds + 3)]
    step, copy = np.median(rounds[3:], axis=0)
    kernels = used(env, "gv_step", 0), used(env, "gv_rollout", 1)
    env.close()
    del env, graph, floor, calls
    torch.cuda.empty_cache()
    env = limited_env(limit, options)
    rolled = [microseconds(lambda: env.rollout(num_steps=options.steps, keep_actions=False), options.steps)
              for _ in range(options.rounds + 3)][3:]  # fmt: skip
    rollout = float(np.median(rolled))
    env.close()
    torch.cuda.empty_cache()
    print(f"{limit:>7}: step {step:8.2f} us, {step / copy:5.2f} copies, {kernels[0]}; rollout {rollout:8.2f} us, "
          f"{rollout / copy:5.2f} copies, {kernels[1]}; copy {copy:.2f} us, {moved:,} bytes", flush=True)  # fmt: skip


def main(options: Options) -> None:
    """Print a line for each limit."""
    torch.cuda.set_device(options.device)
    print(f"{torch.cuda.get_device_name()}, {options.env_id}, {options.worlds:,} worlds")
    for limit in options.limits:
        measure(limit, options)


if __name__ == "__main__":
    main(tyro.cli(Options))
