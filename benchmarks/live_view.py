"""Measures what the live page of a run costs: ``python benchmarks/live_view.py WarpCartPole-v1 --num-envs 256 --device cpu``.

It prints the share of the time that the trainer's thread spends on the page, and that of the threads of its server, without a
page and with one. The page is a process that asks as a browser does which shows four worlds at 20 steps a second, follows an
agent and draws curves. Times are processor times of threads, so other work of the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

from gpu_vecenv.train import TrainConfig, Trainer
from gpu_vecenv.train.runner.live import LiveView

STEPS_PER_S = 20


def ask(address: str) -> None:
    """Ask for rollouts as a page does, for ever."""
    while True:
        with urlopen(f"{address}rollout?worlds=0,1,2,3&agent=0.0&plan=1&pool=1") as answer:
            data = answer.read()
        if not data:
            continue
        rollouts = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])["rollouts"]
        with urlopen(f"{address}metrics?after={rollouts[0]['iteration']}") as answer:
            answer.read()
        time.sleep(sum(rollout["steps"] for rollout in rollouts) / STEPS_PER_S)


def server_seconds() -> float:
    """Return the processor time of the server's threads so far."""
    ticks = 0
    for thread in threading.enumerate():
        if thread.name.startswith(("gpu_vecenv live", "asyncio")):
            fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Spent:
    """Adds up the processor time of calls of the live view in the trainer's thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for name in ("before", "after", "finished"):
            setattr(LiveView, name, self._timed(getattr(LiveView, name)))

    def _timed(self, call):
        def timed(*arguments):
            start = time.thread_time()
            call(*arguments)
            self.seconds += time.thread_time() - start

        return timed


def measure(trainer: Trainer, spent: Spent, seconds: float) -> str:
    """Train for some time, and return the two shares as text."""
    spent.seconds, before, start = 0.0, server_seconds(), time.monotonic()
    while time.monotonic() - start < seconds:
        trainer.train(1 if trainer.env.device == "cpu" else 64)
    took = time.monotonic() - start
    server = (server_seconds() - before) / took
    return f"trainer's thread {spent.seconds / took:.4%}, threads of the server {server:.3%} of {took:.0f} s"


def main() -> None:
    """Measure a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env_id")
    parser.add_argument("--num-envs", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=40.0)
    arguments = parser.parse_args()
    if arguments.env_id.startswith("http://"):  # this file as a page
        return ask(arguments.env_id)
    spent = Spent()
    options = {} if arguments.num_envs is None else {"num_envs": arguments.num_envs}
    trainer = Trainer(TrainConfig(arguments.env_id, total_steps=2**60, device=arguments.device, **options), quiet=True)
    address = trainer.serve_live_page()
    trainer.train(3)
    print(f"{arguments.env_id}, no page: {measure(trainer, spent, arguments.seconds)}", flush=True)
    with subprocess.Popen([sys.executable, __file__, str(address)]) as page:
        time.sleep(1)
        trainer.train(1)
        print(f"{arguments.env_id}, a page: {measure(trainer, spent, arguments.seconds)}", flush=True)
        page.kill()
    trainer.close()


if __name__ == "__main__":
    main()
