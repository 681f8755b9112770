"""All comparisons with the original packages, in many processes.

    python -m tests.envs.originals --processes 60 --out originals.json

Every configuration of each suite is compared in single steps from many states, and in whole episodes. It needs the extra
``originals``. The file is complete after every part of a comparison, so a run that is stopped keeps its counts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file
from tests.envs.tally import Episodes, Tally


@dataclass(frozen=True)
class Suite:
    """An original package, and how much of each of its configurations is compared.

    Args:
        package: its distribution.
        cases: name of the table of configurations in the module ``tests.envs.NAME_original``.
        main: number of the table's first configurations, which are the main ones.
        states: states of a main and of a further configuration.
        episodes: the same for whole episodes.
        part: states and episodes that one task compares.
    """

    package: str
    cases: str
    main: int
    states: tuple[int, int]
    episodes: tuple[int, int]
    part: tuple[int, int]


SUITES = {
    "mpe": Suite("mpe2", "CASES", 9, (1_000_000, 10_000), (10_000, 1_000), (4_000, 100)),
    "foraging": Suite("lbforaging", "CONFIGS", 1, (1_000_000, 10_000), (10_000, 1_000), (2_000, 100)),
    "rware": Suite("rware", "CONFIGURATIONS", 1, (100_000, 10_000), (200, 20), (500, 2)),
}

Task = tuple[str, str, str, int, int]
"""Suite, configuration, ``"states"`` or ``"episodes"``, number and seed."""


def tasks(scale: float) -> Iterator[Task]:
    """Yield the parts of all comparisons.

    Further configurations come first, because some of their parts take longest. Parts of main ones are in random order, so that a
    run that is stopped has compared all of them alike.
    """
    yield from _parts(False, scale)
    main = list(_parts(True, scale))
    random.Random(0).shuffle(main)
    yield from main


def _parts(is_main: bool, scale: float) -> Iterator[Task]:
    """Yield the parts of all main or of all further configurations."""
    for name, suite in SUITES.items():
        cases = list(getattr(importlib.import_module(f"tests.envs.{name}_original"), suite.cases))
        for case in cases[: suite.main] if is_main else cases[suite.main :]:
            for kind, numbers, part in zip(("states", "episodes"), (suite.states, suite.episodes), suite.part, strict=True):
                left, seed = max(1, round(scale * numbers[not is_main])), 1
                while left > 0:
                    yield name, case, kind, min(part, left), seed
                    left, seed = left - part, seed + 1


def compared(task: Task) -> Tally | Episodes:
    """Return the outcome of one part."""
    suite, case, kind, number, seed = task
    module = importlib.import_module(f"tests.envs.{suite}_original")
    outcome: Tally | Episodes = (module.compare if kind == "states" else module.episodes)(case, number, seed)
    return outcome


def report(outcomes: dict[tuple[str, str], dict[str, Any]], head: dict[str, Any]) -> str:
    """Return the JSON of all configurations."""
    rows = [
        {"suite": suite, "case": case, **found["states"].summary(), "episodes": found["episodes"].summary()}
        for (suite, case), found in outcomes.items()
    ]
    return json.dumps({**head, "rows": rows}, indent=1) + "\n"


def main() -> int:
    """Compare everything and write the file; returns the exit status, 1 for an error or a state that differs at no threshold."""
    parser = argparse.ArgumentParser(prog="python -m tests.envs.originals", description=__doc__)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the states and episodes that are compared")
    parser.add_argument("--out", type=Path, default=Path("originals.json"))
    options = parser.parse_args()
    start, outcomes = time.perf_counter(), {}
    parts = list(tasks(options.scale))
    for suite, case, *_ in parts:
        outcomes.setdefault((suite, case), {"states": Tally(), "episodes": Episodes()})
    head = {"command": " ".join(["python -m tests.envs.originals", *sys.argv[1:]]),
            "packages": {suite.package: version(suite.package) for suite in SUITES.values()}}  # fmt: skip
    os.environ["OMP_NUM_THREADS"] = os.environ["GPU_VECENV_NUM_THREADS"] = "1"
    written, errors = -60.0, []
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        waiting = {pool.submit(compared, task): task for task in parts}
        for number, future in enumerate(as_completed(waiting), 1):
            suite, case, kind, *_ = waiting[future]
            try:
                outcomes[suite, case][kind].add(future.result())
            except Exception as error:  # the other parts count nevertheless
                errors.append(f"{waiting[future]}: {type(error).__name__}: {error}")
            seconds = time.perf_counter() - start
            if seconds - written > 5 or number == len(parts):
                state = {"seconds": round(seconds), "parts": [number, len(parts)], "errors": errors}
                with atomic_file(options.out) as path:
                    path.write_text(report(outcomes, {**head, **state}))
                print(f"{seconds:5.0f} s, {number:,} of {len(parts):,} parts", flush=True)
                written = seconds
    tallies = [found["states"] for found in outcomes.values()]
    unexplained = sum(len(tally.differing) - tally.at_thresholds for tally in tallies)
    print(*errors, f"{sum(tally.states for tally in tallies):,} states, {unexplained} differ at no threshold", sep="\n")
    return int(unexplained > 0 or bool(errors))


if __name__ == "__main__":
    sys.exit(main())
