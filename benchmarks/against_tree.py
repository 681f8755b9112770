"""Speed of this checkout beside another one: ``python benchmarks/against_tree.py FOLDER --device cuda:0``.

Each tree runs in a process of its own. In each round every row is timed once in both, in turn, so that a slow phase of the
machine affects both. A row's ratio is the median over the rounds of this tree's time over the other's, with a 95 % interval (sign
test). A row fails if its whole interval lies above the bound; the exit status is then 1.

Make the other tree with ``git worktree add FOLDER COMMIT``; it needs no installation. If it needs other versions of libraries,
``--other-python`` names a Python that has them.

Prints a line for each row, and writes a JSON file if ``--out`` names one.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_vecenv.bench.machine import commit_of, machine  # noqa: E402
from gpu_vecenv.bench.peers.client import PeerError, PeerProcess  # noqa: E402
from gpu_vecenv.bench.timing import calls_to_fill, median_interval  # noqa: E402
from gpu_vecenv.bench.training import SAMPLE_SCALE  # noqa: E402
from gpu_vecenv.cli.bench import groups  # noqa: E402

CONFIDENCE = 0.95
SUBJECTS = "tree_subjects"
"""Module of this folder that makes subjects in the process of a tree."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    other: tyro.conf.Positional[Path]
    """Folder of the other checkout."""
    other_python: str = sys.executable
    """Python that runs the other tree."""
    device: str = "cpu"
    """cpu or cuda:0."""
    modes: tuple[str, ...] = ("env", "training")
    """Modes of gpu-vecenv bench: env, inference, training."""
    cases: Annotated[tuple[str, ...], tyro.conf.arg(metavar="WORD ...")] = ()
    """Measure only cases whose name contains one of these words."""
    paths: Annotated[tuple[str, ...], tyro.conf.arg(metavar="WORD ...")] = ()
    """Measure only these ways to run a case, such as python_copy_false fused."""
    rounds: int = 15
    """Samples of each row and tree."""
    seconds: float = 0.05
    """Length of a sample; ten times as long for training."""
    bound: float = 1.01
    """Largest ratio of times that passes."""
    out: Path | None = None
    """File of the results."""


def rows(options: Options) -> Iterator[tuple[str, str, str]]:
    """Yield mode, name of the case and path of each row."""
    kind = options.device.partition(":")[0]
    for mode in options.modes:
        for case, ways in groups(mode, kind, options.device, (), (), options.cases):
            for path in ways:
                if not options.paths or path in options.paths:
                    yield mode, case.name, path


def measure(
    trees: dict[str, tuple[Path, PeerProcess]], way: dict[str, str], rounds: int, seconds: float, bound: float
) -> dict[str, Any]:
    """Time a row in both trees.

    Args:
        trees: folder and process by name of the tree, ``this`` and ``other``.
        way: arguments of ``make()`` of the subjects but for the folder.
        rounds: samples of each tree.
        seconds: length of a sample.
        bound: largest ratio that passes.

    Raises:
        PeerError: a tree failed.
    """
    subjects = {
        name: process.receive_subject(process.request_subject({**way, "tree": str(folder)}))
        for name, (folder, process) in trees.items()
    }
    calls = {name: calls_to_fill(subject.timed, seconds) for name, subject in subjects.items()}
    # Launches of many steps have as many as memory allows, and both trees share it, so times are compared for a step.
    units = {name: 1 if way["mode"] == "training" else subject.steps for name, subject in subjects.items()}
    times: dict[str, list[float]] = {name: [] for name in trees}
    hosts: dict[str, list[float]] = {name: [] for name in trees}
    for turn in range(rounds):
        for name in list(trees)[:: 1 if turn % 2 else -1]:
            reading = subjects[name].timed.read(calls[name])
            times[name].append(reading.seconds / calls[name] / units[name])
            hosts[name].append(reading.host_seconds / calls[name] / units[name])
    for subject in subjects.values():
        subject.close()
    low, high, _ = median_interval(ratios := _ratios(times), CONFIDENCE)
    medians = {f"{name}_s": statistics.median(values) for name, values in times.items()}
    more_host = statistics.median(a - b for a, b in zip(hosts["this"], hosts["other"], strict=True))
    ratio = statistics.median(ratios)
    return {**way, **medians, "ratio": ratio, "low": low, "high": high, "more_host_s": more_host, "fails": low > bound}


def _ratios(times: dict[str, list[float]]) -> list[float]:
    return [new / old for new, old in zip(times["this"], times["other"], strict=True)]


def main(options: Options) -> int:
    """Measure all rows; return 1 if a row fails or has an error, otherwise 0."""
    trees = {}
    for name, folder, python in (("this", ROOT, sys.executable), ("other", options.other.resolve(), options.other_python)):
        path = os.pathsep.join([str(folder), str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")])
        trees[name] = folder, PeerProcess(SUBJECTS, options.device, {"PYTHONPATH": path}, python)
    results: list[dict[str, Any]] = []
    with closing(trees["this"][1]), closing(trees["other"][1]):
        for mode, case, path in rows(options):
            way = {"mode": mode, "device": options.device, "case": case, "path": path}
            seconds = options.seconds * (SAMPLE_SCALE if mode == "training" else 1)
            try:
                row = measure(trees, way, options.rounds, seconds, options.bound)
                text = f"{row['this_s'] * 1e6:12,.2f} us  {row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
                text += f"  host {row['more_host_s'] * 1e6:+.2f} us"
            except PeerError as error:
                row = {**way, "error": str(error), "fails": True}
                text = str(error)
            print(f"{'FAIL' if row['fails'] else 'ok':5}{mode:10}{case}, {path}: {text}", flush=True)
            results.append(row)
    failed = sum(row["fails"] for row in results)
    print(f"{len(results)} rows, {failed} above {options.bound} with their whole {CONFIDENCE:.0%} interval")
    if options.out is not None:
        commits = {"this": commit_of(ROOT), "other": commit_of(options.other)}
        facts = {"machine": machine(options.device), "commits": commits, "rounds": options.rounds, "bound": options.bound}
        options.out.write_text(json.dumps({**facts, "rows": results}, indent=1) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options)))
