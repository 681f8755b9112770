"""Results of many tasks of ``gpu-vecenv reproduce``: ``python benchmarks/reproduce_all.py --devices cuda:0 cuda:1``.

Each device takes the next job as soon as it is free, in a process of its own. A job is a task and an algorithm, such as
``WarpSimpleSpread-v3:mappo``. After ``--limit-s`` seconds no job begins and those that run are stopped, so that a lease of a
machine is not overrun. Results lie in ``OUT/TASK-ALGORITHM``; ``--only-missing`` goes on where another call stopped, and
``python tools/docs/reproduce_table.py OUT`` makes the committed file and the table of all results.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_vecenv.train.config.tasks import TASKS  # noqa: E402
from gpu_vecenv.train.run_folder.reproduction import RESULTS_FILE  # noqa: E402

SUITES = tuple(dict.fromkeys(task.suite for task in TASKS.values()))
ALGORITHMS = tuple(dict.fromkeys(name for task in TASKS.values() for name in task.algorithms))
JOBS = {f"{name}:{algorithm}": (name, algorithm) for name, task in TASKS.items() for algorithm in task.algorithms}
"""Id of a task and name of an algorithm, by the name of a job."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    suites: tuple[str, ...] = SUITES
    """Run jobs of these groups of tasks alone."""
    algorithms: tuple[str, ...] = ALGORITHMS
    """Run jobs of these algorithms alone."""
    jobs: tuple[str, ...] = tuple(JOBS)
    """Run these jobs alone, such as WarpSimpleSpread-v3:mappo."""
    devices: tuple[str, ...] = ("cpu",)
    """Devices; each takes one job at a time, so one that is named twice takes two."""
    seeds: int = 10
    """Runs of a job."""
    total_steps: int | None = None
    """Steps of a run; None: those of the task."""
    limit_s: float = 520.0
    """Seconds after which jobs are stopped."""
    only_missing: bool = False
    """Leave out jobs that have results."""
    out: Path = ROOT / "runs" / "reproduce"
    """Folder of the results."""


def jobs_of(options: Options) -> list[tuple[str, str]]:
    """Return the tasks and algorithms to run.

    Raises:
        SystemExit: a suite, algorithm or job does not exist.
    """
    _require_known("--suites", options.suites, SUITES)
    _require_known("--algorithms", options.algorithms, ALGORITHMS)
    _require_known("--jobs", options.jobs, JOBS)
    jobs = [JOBS[name] for name in options.jobs]
    jobs = [job for job in jobs if TASKS[job[0]].suite in options.suites and job[1] in options.algorithms]
    return [job for job in jobs if not (options.only_missing and (folder_of(job, options) / RESULTS_FILE).exists())]


def _require_known(option: str, names: Iterable[str], known: Iterable[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"{option}: expected some of {', '.join(known)}; got {', '.join(unknown)}")


def folder_of(job: tuple[str, str], options: Options) -> Path:
    """Return the folder of a job."""
    return options.out / f"{job[0].replace(' ', '-')}-{job[1]}"


def work(device: str, waiting: queue.SimpleQueue[tuple[str, str]], options: Options, end: float) -> None:
    """Run jobs on a device until none is left or the time is over."""
    while time.monotonic() < end:
        try:
            job = waiting.get_nowait()
        except queue.Empty:
            return
        folder, name = folder_of(job, options), ":".join(job)
        shutil.rmtree(folder, ignore_errors=True)  # of a job that was stopped
        steps = [] if options.total_steps is None else ["--total-steps", str(options.total_steps)]
        command = [sys.executable, "-m", "gpu_vecenv", "reproduce", job[0], "--algorithm", job[1], "--seeds", str(options.seeds)]
        command += ["--device", device, "--out", str(folder), *steps]
        folder.parent.mkdir(parents=True, exist_ok=True)
        start, log = time.monotonic(), folder.with_suffix(".log")
        with log.open("w") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT)
            try:
                status = process.wait(max(1.0, end - start))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                print(f"{name} on {device}: stopped after {time.monotonic() - start:.0f} s", flush=True)
                return
        end_of_log = "\n".join(log.read_text().splitlines()[-10:])
        print(f"{name} on {device}: status {status} after {time.monotonic() - start:.0f} s\n{end_of_log}", flush=True)


def main(options: Options) -> None:
    """Run all jobs."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    waiting: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for job in jobs_of(options):
        waiting.put(job)
    end = time.monotonic() + options.limit_s
    threads = [threading.Thread(target=work, args=(device, waiting, options, end)) for device in options.devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = waiting.qsize()
    print(f"{left} jobs did not begin" if left else "all jobs began", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
