"""Variants of the search for neighbours in Tag, from the naive search on: ``python benchmarks/tag_ladder.py [--device cuda:0]``.

Every variant is the same kernel text with build flags of ``kernels/lib``, and gives the same bits. Prints milliseconds a step of
each variant, the fastest of several interleaved rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.backend import cuda
from gpu_vecenv.backend.compiler import compile_object, cpu_level
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.envs.tag.spec import SPEC
from gpu_vecenv.spec.layout import MAX_SCRATCH
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

SCAN = ("-DGV_NO_SERIAL", "-DGV_MIN_CELLS=1024")
VARIANTS = {
    "naive search": ("-DGV_NAIVE_SEARCH", "-DGV_NO_TILES"),
    "sorted list": (*SCAN, "-DGV_NO_BOUND", "-DGV_NO_TILES"),
    "scan within the last bound": (*SCAN, "-DGV_NO_TILES"),
    "cell grid, from 416 agents on": ("-DGV_NO_SERIAL", "-DGV_NO_TILES"),
    "vectors, on the CPU": ("-DGV_NO_TILES",),
    "tiles, on the GPU": (),
}
CASES = {"cpu": {105: 16, 1000: 1}, "cuda": {105: 2000, 1000: 500}}
"""Worlds by the number of agents, 5 in 100 of which are taggers."""


def make_env(device: str, agents: int, worlds: int, flags: tuple[str, ...], folder: Path) -> GpuVectorEnv:
    """An env whose kernels were built with flags."""
    taggers = agents // 20
    options: dict[str, Any] = {"num_taggers": taggers, "num_runners": agents - taggers, "runner_exits_game_after_tagged": False}
    if device == "cpu":
        env = GpuVectorEnv(SPEC, num_envs=worlds, device=device, array="numpy", **options)
        built = folder / f"{abs(hash(flags))}.so"
        if not built.exists():
            compile_object(SPEC, cpu_level(), built, flags)
        env.worlds.backend = CpuBackend(env.layout, built)
        return env
    spec, plain = SPEC, cuda.compile_options
    if "-DGV_MIN_CELLS=1024" in flags and agents > 400:  # lists of all agents are longer than cells
        spec = dataclasses.replace(SPEC, scratch=lambda params: MAX_SCRATCH)
    cuda.compile_options = lambda *arguments: (*plain(*arguments), *flags)
    try:
        env = GpuVectorEnv(spec, num_envs=worlds, device=device, array="torch", **options)
        env.reset(seed=1)  # compiles
    finally:
        cuda.compile_options = plain
    return env


def step_time(env: GpuVectorEnv, action: Any, steps: int) -> float:
    """Milliseconds a step."""
    if env.device != "cpu":
        import torch

        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        env.step(action)
    if env.device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps * 1e3


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    kind = options.device.partition(":")[0]
    times: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        for agents, worlds in CASES[kind].items():
            envs = {r: make_env(options.device, agents, worlds, flags, Path(folder)) for r, flags in VARIANTS.items()}
            best = dict.fromkeys(VARIANTS, np.inf)
            action = None
            for env in envs.values():
                env.reset(seed=1)
                action = env.action_space.sample() if action is None else action
            if kind != "cpu":
                import torch

                action = torch.as_tensor(action, device=options.device)
            for _ in range(options.rounds):
                for variant, env in envs.items():
                    best[variant] = min(best[variant], step_time(env, action, 20))
            for variant, value in best.items():
                times[variant].append(value)
    print("| variant | " + " | ".join(f"{agents} agents, {worlds} worlds" for agents, worlds in CASES[kind].items()) + " |")
    print("|---|" + "---|" * len(CASES[kind]))
    for variant, values in times.items():
        print(f"| {variant} | " + " | ".join(f"{value:.3g} ms" for value in values) + " |")


if __name__ == "__main__":
    main()
