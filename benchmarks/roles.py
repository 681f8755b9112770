"""Step time of an env with two unlike roles against its floor: ``python benchmarks/roles.py --device cuda:0``.

The env is the town of ``tests/roles``. Its floor is a copy that moves as many bytes as a step reads and writes, in a CUDA graph
like the steps. Steps and copies are timed in turn; prints the fastest of several rounds in microseconds, and their ratio.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

sys.path.insert(0, str(Path(__file__).parent.parent))

from gpu_vecenv import GpuVectorEnv, capture_steps  # noqa: E402
from gpu_vecenv.bench.floors import step_bytes  # noqa: E402
from gpu_vecenv.vector.outputs.tree import leaves  # noqa: E402
from tests.roles.town import SPEC  # noqa: E402

STEPS = 128
"""Steps, or copies, in a graph."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    device: str = "cuda:0"
    worlds: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    citizens: int = 5
    rounds: int = 20


def graph_time(replay: Callable[[], None]) -> float:
    """Microseconds of a step in a graph of ``STEPS`` steps."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / STEPS * 1e3


def copies(nbytes: int, device: str) -> torch.cuda.CUDAGraph:
    """Graph of copies that read and write ``nbytes`` bytes in all."""
    source = torch.zeros(nbytes // 2, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(STEPS):
            target.copy_(source)
    return graph


def main(options: Options) -> None:
    """Print a line for each number of worlds."""
    torch.cuda.set_device(options.device)
    print("worlds    bytes a step   step us   floor us   ratio")
    for worlds in options.worlds:
        params = {"num_citizens": options.citizens, "rich": 1e6, "max_episode_steps": 100}
        env = GpuVectorEnv(SPEC, num_envs=worlds, device=options.device, copy=False, **params)
        env.reset(seed=0)
        env.rollout(num_steps=50)  # worlds differ from each other
        actions = env.rollout(num_steps=1)[4]["actions"]
        results = env.step({role: array[0] for role, array in actions.items()})
        moved = sum(step_bytes(env, results, sum(array.nbytes for array in leaves(actions))).values())
        steps, floor = capture_steps(env, STEPS), copies(int(moved), options.device)
        times = [(graph_time(steps.replay), graph_time(floor.replay)) for _ in range(options.rounds)]
        step, least = (min(column) for column in zip(*times, strict=True))
        print(f"{worlds:<9,} {moved:12,.0f} {step:9.2f} {least:10.2f} {step / least:7.2f}")
        env.close()


if __name__ == "__main__":
    main(tyro.cli(Options))
