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
from dataclasses import dataclass
from pathlib import Path

import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_vecenv.train.config.tasks import TASKS  # noqa: E402
from gpu_vecenv.train.run_folder.reproduction import RESULTS_FILE  # noqa: E402

SUITES = tuple(dict.fromkeys(task.suite for task in TASKS.values()))


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    suites: tuple[str, ...] = SUITES
    """Groups of tasks."""
    jobs: tuple[str, ...] = ()
    """Jobs as TASK:ALGORITHM, in place of those of suites."""
    algorithms: tuple[str, ...] = ()
    """Algorithms; all of each task by default."""
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
    """Return the tasks and algorithms to run, the algorithms in the outer order, so that an interruption leaves some of each.

    Raises:
        SystemExit: there is no such job.
    """
    every = [(name, algorithm) for name, task in TASKS.items() for algorithm in task.algorithms]
    if options.jobs:
        chosen = [(task, algorithm) for task, _, algorithm in (job.rpartition(":") for job in options.jobs)]
        if unknown := [f"{task}:{algorithm}" for task, algorithm in chosen if (task, algorithm) not in every]:
            raise SystemExit(f"--jobs: expected TASK:ALGORITHM of gpu-vecenv reproduce --list, got {', '.join(unknown)}")
    else:
        chosen = [(name, algorithm) for name, algorithm in every if TASKS[name].suite in options.suites]
        chosen = [job for job in chosen if job[1] in (options.algorithms or job)]
    return [job for job in chosen if not (options.only_missing and (folder_of(job, options) / RESULTS_FILE).exists())]


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
        lines = log.read_text().splitlines()
        shown = "\n".join(lines[-10:] if status else lines[-len(TASKS[job[0]].algorithms) - 6 :])
        print(f"{name} on {device}: status {status} after {time.monotonic() - start:.0f} s\n{shown}", flush=True)


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
