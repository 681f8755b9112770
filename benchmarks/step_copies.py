"""Step time of envs against a copy of the same bytes: ``python benchmarks/step_copies.py --device cuda:0``.

A copy moves as many bytes as a step reads and writes, with actions of int32. Steps and copies are in CUDA graphs and are timed in
turn. Writes medians of several rounds to ``benchmarks/results/step_copies.json``; then run ``python
tools/docs/step_copies_table.py``.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium
import torch
import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import tests.roles  # noqa: E402, F401  (registers Town-v0)
from gpu_vecenv.bench.floors import step_bytes  # noqa: E402
from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.vector.outputs.tree import leaves, tree_map  # noqa: E402

STEPS, WARM_UP = 16, 50
"""Steps, or copies, in a graph; random steps before it, after which worlds differ from each other."""

TOWN = {"num_citizens": 5, "rich": 1e6, "max_episode_steps": 100}
CASES: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "town": ("Town-v0", TOWN, (1_000, 10_000, 1_000_000)),
    "RICE-N": ("WarpRice-v0", {}, (1_000, 10_000)),
    "RICE-N, whole rows": ("WarpRice-v0", {"observe": "whole"}, (1_000, 10_000)),
    "RICE-N, negotiation": ("WarpRice-v0", {"negotiation_on": True}, (1_000, 10_000)),
    "RICE-N, negotiation, whole rows": ("WarpRice-v0", {"negotiation_on": True, "observe": "whole"}, (1_000, 10_000)),
    "COVID-19": ("WarpCovid-v0", {}, (1_000, 10_000)),
    "catalysis, one atom": ("WarpCatalysis-v0", {}, (10_000, 1_000_000)),
    "catalysis, two atoms": ("WarpCatalysis-v0", {"configuration": "check_two_atom_c"}, (10_000, 1_000_000)),
}
"""Id, parameters and numbers of worlds of each case."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    device: str = "cuda:0"
    cases: tuple[str, ...] = tuple(CASES)
    rounds: int = 20
    out: Path = ROOT / "benchmarks" / "results" / "step_copies.json"


def graph_time(replay: Callable[[], None]) -> float:
    """Microseconds of a step in a graph of ``STEPS`` steps."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / STEPS * 1e3


def captured(call: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Graph of ``STEPS`` calls."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(STEPS):
                call()
    return graph


def measure(name: str, worlds: int, options: Options) -> dict[str, Any]:
    """Time steps and copies in turn."""
    env_id, params, _ = CASES[name]
    env = gymnasium.make_vec(env_id, num_envs=worlds, device=options.device, array="torch", copy=False, **params).unwrapped
    env.reset(seed=0)
    for _ in range(WARM_UP):  # one by one, because all results of a rollout are kept
        drawn = env.rollout(num_steps=1)[4]["actions"]
    actions = tree_map(lambda array: array[0].to(array.dtype if array.is_floating_point() else torch.int32), drawn)
    moved = int(sum(step_bytes(env, env.step(actions), sum(array.nbytes for array in leaves(actions))).values()))
    source = torch.zeros(moved // 2, dtype=torch.uint8, device=options.device)
    target = torch.zeros_like(source)
    steps, copies = captured(lambda: env.step(actions)), captured(lambda: target.copy_(source))
    times = [(graph_time(steps.replay), graph_time(copies.replay)) for _ in range(options.rounds + 2)]
    step, copy = (statistics.median(column) for column in zip(*islice(times, 2, None), strict=True))
    del steps, copies
    env.close()
    row = {"worlds": worlds, "bytes": moved, "step_us": round(step, 2), "copy_us": round(copy, 2), "ratio": round(step / copy, 3)}
    print(f"{name}: {row}", flush=True)
    return row


def main(options: Options) -> None:
    """Measure all cases; rows of cases that are not measured stay."""
    torch.cuda.set_device(options.device)
    if unknown := [name for name in options.cases if name not in CASES]:
        raise SystemExit(f"--cases: expected some of {', '.join(CASES)}, got {', '.join(unknown)}")
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.cases:
        rows = [measure(name, worlds, options) for worlds in CASES[name][2]]
        results[name] = {"machine": machine(options.device), "rows": rows}
        options.out.write_text(json.dumps({case: results[case] for case in CASES if case in results}, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
