"""Speed of SAC, TD3 and DDPG on a CPU core beside SB3: ``python benchmarks/off_policy_cpu.py``.

Pendulum with one world, two layers of 256 units, and a gradient step of a batch of 256 for each step, env steps included. Both
libraries take turns in one process with one thread, round after round, because other work of the machine changes their speeds.
Rates are medians of the rounds, by the clock and by the time of the process on a core, which other work changes less.

``products`` is the floor of both: the matrix products of a gradient step alone, by torch into arrays that exist, without biases,
activations, losses, optimisers, samples or steps of the env.

Writes ``benchmarks/results/off_policy_cpu.json``; rows that are not run again stay.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

os.environ["GPU_VECENV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read at the imports below

import torch  # noqa: E402
import tyro  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import off_policy_speed  # noqa: E402

from gpu_vecenv.bench.machine import installed, machine  # noqa: E402
from gpu_vecenv.train import Trainer  # noqa: E402


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    algorithms: tuple[Literal["sac", "td3", "ddpg"], ...] = ("sac", "td3", "ddpg")
    """Algorithms to measure."""
    rounds: int = 7
    """Rounds, after one that does not count."""
    steps: int = 400
    """Steps of a round of each library."""
    out: Path = ROOT / "benchmarks" / "results" / "off_policy_cpu.json"
    """File of the results."""


def ours(name: str, options: Options) -> Callable[[], object]:
    """Return a round of this package."""
    config = off_policy_speed.config_of(name, "one", off_policy_speed.Options(device="cpu"))
    setup = config.algorithms[name]
    trainer = Trainer(config, quiet=True)
    trainer.train(setup.learning_starts // setup.num_steps)
    return lambda: trainer.train(options.steps // setup.num_steps)


def sb3(name: str, options: Options) -> Callable[[], object]:
    """Return a round of SB3."""
    import gymnasium
    import stable_baselines3

    start = off_policy_speed.COMMON["learning_starts"]
    model = getattr(stable_baselines3, name.upper())(
        "MlpPolicy", gymnasium.make("Pendulum-v1"), batch_size=off_policy_speed.BATCH, learning_starts=start, train_freq=1,
        gradient_steps=1, policy_kwargs={"net_arch": [256, 256]}, device="cpu",
    )  # fmt: skip
    model.learn(start)
    return lambda: model.learn(options.steps, reset_num_timesteps=False)


def products(name: str, options: Options) -> Callable[[], object]:
    """Return a round of the matrix products of gradient steps."""
    critic, actor = (4, 256, 256, 1), (3, 256, 256, 2 if name == "sac" else 1)
    critics, judges = (1 if name == "ddpg" else 2), (2 if name == "sac" else 1)  # judges: critics that teach the actor
    to_critics = [forward(actor), *critics * [forward(critic)], *critics * [forward(critic), backward(critic, inputs=False)]]
    to_actor = [forward(actor), *judges * [forward(critic), backward(critic, weights=False)], backward(actor, inputs=False)]

    def run() -> None:
        for step in range(options.steps):
            learns = name != "td3" or step % 2  # the actor of TD3 learns in every second step
            for multiply in (*to_critics, *(to_actor if learns else ())):
                multiply()

    return run


def forward(sizes: tuple[int, ...]) -> Callable[[], None]:
    """Return the products of a pass of a batch through layers."""
    rows = [torch.randn(off_policy_speed.BATCH, size) for size in sizes]
    weights = [torch.randn(size, after) for size, after in itertools.pairwise(sizes)]

    def multiply() -> None:
        for before, weight, after in zip(rows, weights, rows[1:], strict=False):
            torch.mm(before, weight, out=after)

    return multiply


def backward(sizes: tuple[int, ...], weights: bool = True, inputs: bool = True) -> Callable[[], None]:
    """Return the products of a pass back: of the gradients of weights, of rows between layers, and of the input."""
    rows = [torch.randn(off_policy_speed.BATCH, size) for size in sizes]
    matrices = [torch.randn(size, after) for size, after in itertools.pairwise(sizes)]
    slopes = [torch.empty_like(matrix) for matrix in matrices]
    gradients = [torch.randn_like(row) for row in rows]

    def multiply() -> None:
        for layer in reversed(range(len(matrices))):
            if weights:
                torch.mm(rows[layer].T, gradients[layer + 1], out=slopes[layer])
            if inputs or layer:
                torch.mm(gradients[layer + 1], matrices[layer].T, out=gradients[layer])

    return multiply


def rates_in_turn(libraries: Mapping[str, Callable[[], object]], rounds: int, steps: int) -> dict[str, dict[str, Any]]:
    """Run libraries in turn; return rates of each by the clock and by the time on a core, and the seconds of its rounds.

    Args:
        libraries: what runs a round of each.
        rounds: rounds that count, after one that does not.
        steps: steps of a round.
    """
    seconds: dict[str, list[tuple[float, float]]] = {library: [] for library in libraries}
    for number in range(rounds + 1):
        for library, run in libraries.items():
            start, start_on_core = time.perf_counter(), time.process_time()
            run()
            spent = time.perf_counter() - start, time.process_time() - start_on_core
            if number:
                seconds[library].append(spent)
    rows = {}
    for library, spent in seconds.items():
        by_clock, on_core = (steps / statistics.median(times) for times in zip(*spent, strict=True))
        rows[library] = {"steps": steps, "steps_per_second": by_clock, "steps_per_core_second": on_core, "seconds": spent}
    return rows


def main(options: Options) -> None:
    """Measure, print and write all rows."""
    torch.set_num_threads(1)
    rows: dict[str, Any] = json.loads(options.out.read_text())["rows"] if options.out.exists() else {}
    for name in options.algorithms:
        libraries = {"gpu_vecenv": ours(name, options), "sb3": sb3(name, options), "products": products(name, options)}
        for library, row in rates_in_turn(libraries, options.rounds, options.steps).items():
            rows[f"{name} {library}"] = {"machine": machine("cpu"), **row}
        sb3_row = rows[f"{name} sb3"]
        for library in ("gpu_vecenv", "products"):
            row = rows[f"{name} {library}"]
            row["of_sb3"] = {key: row[key] / sb3_row[key] for key in ("steps_per_second", "steps_per_core_second")}
        print(
            name,
            {library: rows[f"{name} {library}"].get("of_sb3") for library in libraries},
            {library: rows[f"{name} {library}"]["steps_per_core_second"] for library in libraries},
            flush=True,
        )
        results = {"benchmark": "off_policy_cpu", "sb3": installed("stable_baselines3"), "rows": rows}
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
