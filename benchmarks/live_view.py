"""Measures what the live page of a run costs: ``python benchmarks/live_view.py --device cpu``, or ``--device cuda:0``.

One run trains in three ways in turn: without the live view, with it and no page, and with a page. The page is the process of
``live_page.py``, which draws nothing. So nothing is compiled for a browser: of the extra "web" the machine needs Starlette and
uvicorn alone. Presets choose the sizes. A row has for each way:

- the time of an iteration over that without the live view: the median of the rounds' ratios with a 95 % interval (sign test). On
  a GPU, times are of the wall clock; on the CPU, they are processor times of all threads, so that other programs do not count.
- the processor time that the live view takes in the trainer's thread, and that of the server's threads, as shares of the wall
  clock: the mean over the rounds, and half the width of its 95 % interval (Student's t).
- excerpts that pages got a second, and iterations in flight behind a launch: the median over the launches. A sample begins when
  the page asks for the first time, so a short one has more excerpts a second than a page that stays open.

Stated beforehand: a page costs less than 0.5 %, the live view without one nothing that can be measured, and with both of them a
GPU has 16 iterations in flight. The file ``benchmarks/results/live_view.json`` keeps what other devices recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from gpu_vecenv.bench.machine import machine
from gpu_vecenv.bench.timing import median_interval
from gpu_vecenv.train import TrainConfig, Trainer
from gpu_vecenv.train.run_folder.intervals import mean_interval
from gpu_vecenv.train.runner import live

ENV_IDS = ("WarpCartPole-v1", "WarpGridTag-v0", "WarpTag-v0")
WITHOUT, NO_PAGE, PAGE = "without", "no_page", "a_page"
WAYS = (WITHOUT, NO_PAGE, PAGE)
PAGE_FILE = Path(__file__).with_name("live_page.py")
CONFIDENCE = 0.95
WARM_UP = 4
"""Iterations before the timed ones; a CUDA graph is captured in the third."""


def server_seconds() -> float:
    """Return the processor time of the server's threads so far."""
    threads = [each for each in threading.enumerate() if each.name.startswith(("gpu_vecenv live", "asyncio"))]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(each.ident)) for each in threads if each.ident is not None)


@dataclass
class Sample:
    """Times of some iterations in seconds, and counts of the live view meanwhile."""

    iteration_s: float = 0.0
    wall_s: float = 0.0
    trainer_s: float = 0.0
    server_s: float = 0.0
    excerpts: int = 0
    in_flight: list[int] = field(default_factory=list)


class Run:
    """A run that can be trained in all ways.

    Args:
        env_id: id of the env.
        device: device of the run.
    """

    def __init__(self, env_id: str, device: str) -> None:
        self.trainer = Trainer(TrainConfig(env_id, total_steps=2**50, device=device), quiet=True)
        with mock.patch.object(live, "wasm_module", return_value=b""):  # the page does not ask for the kernels
            self._address = str(self.trainer.serve_live_page())
        self._view, self._sample = self.trainer.pipeline.live, Sample()
        self._clock = time.process_time if device == "cpu" else time.perf_counter
        for of, name in ((self._view, "before"), (self._view, "after"), (self._view, "finished"), (self._view.curves, "log")):
            setattr(of, name, self._timed(getattr(of, name)))
        self._view.server.give = self._counted(self._view.server.give)
        self.trainer.pipeline.launch = self._watched(self.trainer.pipeline.launch)
        self.trainer.train(WARM_UP)

    def _timed(self, call: Callable[..., None]) -> Callable[..., None]:
        def timed(*arguments: Any) -> None:
            start = time.thread_time()
            call(*arguments)
            self._sample.trainer_s += time.thread_time() - start

        return timed

    def _counted(self, give: Callable[..., None]) -> Callable[..., None]:
        def counted(*arguments: Any) -> None:
            self._sample.excerpts += 1
            give(*arguments)

        return counted

    def _watched(self, launch: Callable[..., None]) -> Callable[..., None]:
        def watched(*arguments: Any) -> None:
            launch(*arguments)
            self._sample.in_flight.append(self.trainer.pipeline.count)

        return watched

    def train(self, iterations: int) -> Sample:
        """Train for some iterations."""
        sample = self._sample = Sample()
        server, wall, start = server_seconds(), time.perf_counter(), self._clock()
        self.trainer.train(iterations)
        sample.iteration_s = (self._clock() - start) / iterations
        sample.wall_s = time.perf_counter() - wall
        sample.server_s = server_seconds() - server
        return sample

    def iterations_in(self, seconds: float) -> int:
        """Return the number of iterations, at least 1, that take some seconds."""
        iterations = 1
        while (took := self.train(iterations).wall_s) < seconds / 8:
            iterations *= 2
        return max(1, round(iterations * seconds / took))

    @contextlib.contextmanager
    def way(self, name: str) -> Iterator[None]:
        """Train in one way in this context. A page waits for its first excerpt when it begins."""
        shows = name != WITHOUT
        self.trainer.pipeline.live, self.trainer._sinks = (self._view, (self._view.curves,)) if shows else (None, ())
        if name != PAGE:
            yield
            return
        with subprocess.Popen([sys.executable, str(PAGE_FILE), self._address]) as page:
            try:
                self._wait_for(wish=True)
                yield
            finally:
                page.kill()
        self._wait_for(wish=False)
        self.train(1)  # ends an excerpt that was begun

    def _wait_for(self, *, wish: bool) -> None:
        """Wait until the server has seen a page that waits, or that there is none."""
        while (self._view.server.wish is not None) != wish:
            time.sleep(0.01)


def row(samples: list[dict[str, Sample]], run: Run, iterations: int) -> dict[str, Any]:
    """Return the figures of a run from the samples of each round by way."""
    result: dict[str, Any] = {
        "num_envs": run.trainer.config.num_envs, "num_steps": run.trainer.parts.num_steps, "iterations": iterations,
        "iteration_ms_without": 1e3 * statistics.median(each[WITHOUT].iteration_s for each in samples),
    }  # fmt: skip
    for way in WAYS:
        of_way = [each[way] for each in samples]
        result[way] = {
            "excerpts_a_second": sum(each.excerpts for each in of_way) / sum(each.wall_s for each in of_way),
            "in_flight": statistics.median(count for each in of_way for count in each.in_flight),
        }
        if way == WITHOUT:
            continue
        ratios = [each[way].iteration_s / each[WITHOUT].iteration_s for each in samples]
        low, high, coverage = median_interval(ratios, CONFIDENCE)
        result[way]["time_ratio"] = {"median": statistics.median(ratios), "low": low, "high": high, "coverage": coverage}
        for part in ("trainer", "server"):
            shares = [getattr(each, f"{part}_s") / each.wall_s for each in of_way]
            mean, half = mean_interval(shares, CONFIDENCE)
            result[way][f"{part}_share"] = {"mean": mean, "half": half}
    return result


def measure(env_id: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of an env."""
    run = Run(env_id, options.device)
    with contextlib.closing(run.trainer):
        iterations, samples = run.iterations_in(options.seconds), []
        for turn in range(options.rounds):
            of_round = {}
            for k in range(len(WAYS)):
                name = WAYS[(turn + k) % len(WAYS)]
                with run.way(name):
                    of_round[name] = run.train(iterations)
            samples.append(of_round)
        return row(samples, run, iterations)


def main() -> None:
    """Measure every env and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cpu or cuda:0")
    parser.add_argument("--envs", nargs="+", default=ENV_IDS, metavar="ID")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a sample; a page asks every two or three")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/live_view.json"))
    options = parser.parse_args()
    load, rows = os.getloadavg()[0], {}
    for env_id in options.envs:
        rows[env_id] = measure(env_id, options)
        print(env_id, json.dumps(rows[env_id]), flush=True)
    recorded = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "live_view", "devices": {}}
    command = f"python benchmarks/live_view.py --device {options.device} --rounds {options.rounds} --seconds {options.seconds}"
    facts = machine(options.device) | {"load": round(load, 1)}
    recorded["devices"][options.device] = {"command": command, "machine": facts, "rows": rows}
    options.out.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
