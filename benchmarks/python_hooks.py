"""Time of a step with hooks in Python beside the same hooks in C++: ``python benchmarks/python_hooks.py --device cuda:0``.

In each round both are timed once, in turn, so that a slow phase of the machine affects both. On a GPU the steps are those of a
captured graph. A row's ratio is the median over the rounds of Python's time over that of C++, with a 95 % interval (sign test). A
row fails if its whole interval lies above the bound; the exit status is then 1. ``--hashes`` compares the bits of a thousand
steps on the device with those on record instead.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gpu_vecenv import GpuVectorEnv, capture_steps  # noqa: E402
from gpu_vecenv.backend.select import make_backend  # noqa: E402
from gpu_vecenv.bench.timing import Local, calls_to_fill, median_interval  # noqa: E402
from tests.parity.trajectory import RECORD  # noqa: E402
from tests.pyhooks.cases import CASES, PORTS, hash_of, port_of, ported, spec_in_cpp  # noqa: E402

SIZES: dict[str, tuple[int, ...]] = {
    "WarpCartPole-v1": (100_000, 1_000_000),
    "WarpGridTag-v0": (10_000, 100_000),
    "Pot-v0": (10_000, 100_000),
    "Harvest-v0": (2_000, 10_000),
    "Spread-v0": (10_000, 100_000),
}
"""Numbers of worlds by id; a CPU has a hundredth of them."""

STEPS = 16
"""Steps of a captured graph, or of a timed call on the CPU."""


def stepper(spec: Any, device: str, worlds: int) -> Callable[[], object]:
    """Return a call that makes ``STEPS`` steps of an env with random actions that stay the same."""
    env = GpuVectorEnv(spec, num_envs=worlds, device=device, array="torch", copy=False)
    env.reset(seed=0)
    env.action_space.seed(1)
    sample = env.action_space.sample()
    if device == "cpu":
        return lambda: [env.step(sample) for _ in range(STEPS)]
    import torch

    steps = capture_steps(env, STEPS)
    actions = steps.actions if isinstance(steps.actions, dict) else {"": steps.actions}
    for name, slab in actions.items():
        slab.copy_(torch.as_tensor(np.asarray(sample[name] if name else sample), device=device).expand_as(slab))
    return steps.replay


def row(name: str, device: str, worlds: int, rounds: int, bound: float) -> bool:
    """Time an env in both languages and print a line; return True if Python is too slow."""
    spec = spec_in_cpp(name)
    specs = {"C++": spec, "Python": port_of(spec)}
    timed = {language: Local(stepper(one, device, worlds), device) for language, one in specs.items()}
    calls = {language: calls_to_fill(one, 0.05) for language, one in timed.items()}
    times: dict[str, list[float]] = {language: [] for language in timed}
    for turn in range(rounds):
        for language in list(timed)[:: 1 if turn % 2 else -1]:
            times[language].append(timed[language].read(calls[language]).seconds / calls[language] / STEPS)
    ratios = [new / old for new, old in zip(times["Python"], times["C++"], strict=True)]
    low, high, _ = median_interval(ratios, 0.95)
    cpp, python = (1e6 * statistics.median(times[language]) for language in ("C++", "Python"))
    print(f"{'FAIL' if low > bound else 'ok':5}{name}, {worlds:,} worlds: C++ {cpp:,.2f} us, Python {python:,.2f} us, "
          f"ratio {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})", flush=True)  # fmt: skip
    return low > bound


def hashes(device: str) -> bool:
    """Compare a thousand steps of each case with the record, or with C++; return True if one differs."""
    record, wrong = json.loads(RECORD.read_text()), False
    for case in CASES:
        got = hash_of(case, device=device, backend=lambda layout: make_backend(ported(layout), device, "numpy"))
        expected = record[case] if case in record else hash_of(case)
        wrong |= got != expected
        print(f"{'ok' if got == expected else 'FAIL':5}{case}", flush=True)
    return wrong


def main() -> int:
    """Measure, or compare hashes; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--envs", nargs="+", default=list(PORTS), choices=list(PORTS), help="ids to measure")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each row and language")
    parser.add_argument("--bound", type=float, default=1.03, help="largest ratio of times that passes")
    parser.add_argument("--hashes", action="store_true", help="compare bits instead of times")
    options = parser.parse_args()
    if options.hashes:
        return int(hashes(options.device))
    scale = 100 if options.device == "cpu" else 1
    sizes = [(name, worlds // scale) for name in options.envs for worlds in SIZES[name]]
    failed = [row(name, options.device, worlds, options.rounds, options.bound) for name, worlds in sizes]
    return int(any(failed))


if __name__ == "__main__":
    sys.exit(main())
