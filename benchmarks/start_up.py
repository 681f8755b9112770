"""How long many worlds take to be made and reset, and how much memory they hold beside what was predicted.

Run from a checkout on a machine with a GPU: ``python benchmarks/start_up.py --out benchmarks/results/start_up.json``. Kernels
are compiled before, by a first env of the same kind; times are those of the second.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
import gpu_vecenv  # noqa: F401
from benchmarks.timing import seconds_per_call, write_results
from gpu_vecenv.footprint import footprint
from gpu_vecenv.views import View

CASES = (("WarpCartPole-v1", 1_000_000), ("WarpGridTag-v0", 100_000))


def measure(name: str, worlds: int, copy: bool, device: str) -> dict[str, Any]:
    """One env: seconds to make and to reset it, microseconds a step, bytes held at most and as predicted."""
    gymnasium.make_vec(name, num_envs=1, device=device).reset(seed=0)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    start = time.perf_counter()
    env = gymnasium.make_vec(name, num_envs=worlds, device=device, copy=copy).unwrapped
    torch.cuda.synchronize()
    made = time.perf_counter() - start
    env.reset(seed=0)
    torch.cuda.synchronize()
    ready = time.perf_counter() - start
    actions = torch.zeros((worlds, *(env.single_action_space.shape or ())), dtype=torch.int64, device=device)
    torch.cuda.reset_peak_memory_stats()
    results = None
    for _ in range(5):
        results = env.step(actions)
    peak = torch.cuda.max_memory_allocated() - before[0]
    reserved = torch.cuda.memory_reserved() - before[1]
    predicted = sum(footprint(View(env.layout, worlds, False), env.autoreset_mode, copy).values())
    del results
    return {
        "env": name, "worlds": worlds, "copy": copy, "make_s": made, "make_and_reset_s": ready,
        "us_per_step": seconds_per_call(lambda: env.step(actions), device) * 1e6,
        "predicted_bytes": predicted, "peak_bytes": peak, "reserved_bytes": reserved, "peak_over_predicted": peak / predicted,
    }  # fmt: skip


def main() -> None:
    """Measure every case and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/start_up.json"))
    given = parser.parse_args()
    rows = [measure(name, worlds, copy, given.device) for name, worlds in CASES for copy in (True, False)]
    for row in rows:
        print(row)
    write_results(given.out, "start_up", given.device, rows)


if __name__ == "__main__":
    main()
