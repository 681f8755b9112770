"""Speed of SAC, TD3 and DDPG: ``python benchmarks/off_policy_speed.py --device cuda:0 --leanrl FOLDER --torchrl FOLDER``.

Settings of Pendulum, each with steps of the env included:

- ``one``: one world, a gradient step of a batch of 256 for each step, two layers of 256, as in scripts of LeanRL, SB3 and SBX.
  TD3 takes two steps and two gradient steps at a time, because its policy learns in every second one.
- ``update``: the same with 32 gradient steps for each step, so that nearly all time is that of updates.
- ``many``: 4,096 worlds, two gradient steps of a batch of 32,768 for each step of all worlds.
- ``goal``: the preset, until the mean return of 100 episodes reaches -200; seconds of training without those of evaluations.

Rates are medians of five parts of a run, after the first parts, in which libraries initialise themselves and a graph is captured.
``learned`` counts transitions in batches. ``--leanrl`` and ``--torchrl`` are checkouts of LeanRL and TorchRL, and
``--libraries sb3 sbx`` runs these libraries, if they are installed; see ``peers_off_policy.py``.

Writes ``benchmarks/results/off_policy_speed.json``; rows that are not run again stay.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "benchmarks" / "peers_off_policy.py"
sys.path[:0] = [str(ROOT), str(PEERS.parent)]

from peer_process import measured  # noqa: E402

from gpu_vecenv.bench.machine import installed, machine  # noqa: E402
from gpu_vecenv.train import DDPGConfig, NetworkConfig, SACConfig, TD3Config, TrainConfig, Trainer, evaluate  # noqa: E402

CONFIGS: dict[str, Any] = {"sac": SACConfig, "td3": TD3Config, "ddpg": DDPGConfig}
ENV, GOAL, PARTS, BATCH = "WarpPendulum-v1", -200.0, 5, 256
WIDE = NetworkConfig((256, 256), "relu")
COMMON = {"replay_size": 1_000_000, "learning_starts": 1_000}


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    device: str = "cuda:0"
    """Device of this package and of its peers."""
    algorithms: tuple[Literal["sac", "td3", "ddpg"], ...] = ("sac", "td3", "ddpg")
    """Algorithms to measure."""
    settings: tuple[Literal["one", "update", "many", "goal"], ...] = ("one", "update", "many", "goal")
    """Settings to measure."""
    seconds: float = 3.0
    """Least length of a part."""
    leanrl: Path | None = None
    """A checkout of LeanRL."""
    ways: tuple[Literal["graphs", "compile", "compile graphs", "eager"], ...] = ("graphs", "compile", "compile graphs")
    """How scripts of LeanRL run."""
    torchrl: Path | None = None
    """A checkout of TorchRL, for its scripts."""
    torchrl_ways: tuple[Literal["graphs", "compile", "compile graphs", "eager"], ...] = ("compile graphs",)
    """How scripts of TorchRL run."""
    libraries: tuple[Literal["sb3", "sbx"], ...] = ()
    """Further libraries."""
    peer_steps: int = 6_000
    """Steps of a peer that are measured."""
    peer_burn_in: int = 1_000
    """Steps of a peer with gradient steps before."""
    peer_seconds: float = 120.0
    """Most seconds of a peer's process."""
    out: Path = ROOT / "benchmarks" / "results" / "off_policy_speed.json"
    """File of the results."""


def config_of(name: str, setting: str, options: Options) -> TrainConfig:
    """Return the options of a run of this package that lasts."""
    config = CONFIGS[name]
    if setting == "many":
        setup = config(**COMMON, num_steps=1, gradient_steps=2, batch_size=32_768)
        return TrainConfig(ENV, 4096, 10**12, 0, options.device, network=WIDE, algorithm=name, algorithms={name: setup})
    steps = 2 if name == "td3" else 1
    setup = config(**COMMON, num_steps=steps, gradient_steps=32 * steps if setting == "update" else steps, batch_size=BATCH)
    return TrainConfig(ENV, 1, 10**12, 0, options.device, network=WIDE, algorithm=name, algorithms={name: setup})


def timed(work: Callable[[], object], device: str) -> float:
    """Return the seconds of some work, with all that it queued on the device."""
    start = time.perf_counter()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def measure_ours(name: str, setting: str, options: Options) -> dict[str, Any]:
    """Return steps, gradient steps and learned transitions a second."""
    config = config_of(name, setting, options)
    setup = config.algorithms[name]
    trainer = Trainer(config, quiet=True)
    first = 64 + setup.learning_starts // (config.num_envs * setup.num_steps)
    setup_s = timed(lambda: trainer.train(first), options.device)
    iterations = 16
    while timed(functools.partial(trainer.train, iterations), options.device) < options.seconds:
        iterations *= 2
    rates = [iterations / timed(functools.partial(trainer.train, iterations), options.device) for _ in range(PARTS)]
    trainer.close()
    rate = statistics.median(rates)
    return {
        "iterations_per_second": rates, "steps_per_second": rate * config.num_envs * setup.num_steps,
        "gradient_steps_per_second": rate * setup.gradient_steps, "learned": rate * setup.gradient_steps * setup.batch_size,
        "first_s": setup_s, "update_to_data": setup.gradient_steps * setup.batch_size / (config.num_envs * setup.num_steps),
    }  # fmt: skip


def measure_goal(name: str, options: Options, every: int = 25) -> dict[str, Any]:
    """Return seconds of training until the goal, and the curve of evaluations."""
    curve: list[tuple[float, int, float]] = []
    begin = time.perf_counter()
    trainer = Trainer(TrainConfig(ENV, device=options.device, algorithm=name), quiet=True)
    spent = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder:
        while not trainer.finished and (not curve or curve[-1][2] < GOAL):
            spent += timed(lambda: trainer.train(every), options.device)
            path = trainer.save(Path(folder) / "run.pt")
            mean = evaluate(path, 100, deterministic=True, device=options.device).mean_return["agent"]
            curve.append((spent, trainer.iteration * trainer.steps_per_iteration, mean))
    trainer.close()
    return {"seconds_with_setup": curve[-1][0], "reached": curve[-1][2] >= GOAL, "curve": curve}


def peers_of(name: str, options: Options) -> dict[str, list[str]]:
    """Return the arguments of ``peers_off_policy.py`` by row."""
    shared = ["--device", options.device, "--steps", str(options.peer_steps), "--burn-in", str(options.peer_burn_in)]
    rows = {}
    for peer, source, ways in (("leanrl", options.leanrl, options.ways), ("torchrl", options.torchrl, options.torchrl_ways)):
        for way in ways if source is not None else ():
            rows[f"{name} one {peer}, {way}"] = [peer, name, "--source", str(source), "--way", way, *shared]
    return rows | {f"{name} one {library}": [library, name, *shared] for library in options.libraries}


def measure_peer(arguments: list[str], options: Options) -> dict[str, Any]:
    """Return the steps a second of another library after the random start, and the transitions in its batches."""
    row = measured(PEERS, arguments, options.peer_seconds)
    names = {"sb3": "stable_baselines3", "sbx": "sbx-rl", "torchrl": "torchrl", "leanrl": "tensordict"}
    row["versions"] = {name: installed(name) for name in dict.fromkeys((names[arguments[0]], "torch", "jax"))}
    return row | ({"learned": BATCH * row["steps_per_second"]} if "steps_per_second" in row else {})


def main(options: Options) -> None:
    """Measure, print and write all rows."""
    results = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "off_policy_speed", "rows": {}}
    facts = machine(options.device)
    rows: dict[str, Callable[[], dict[str, Any]]] = {}
    for name in options.algorithms:
        for setting in options.settings:
            measure = measure_goal if setting == "goal" else functools.partial(measure_ours, setting=setting)
            rows[f"{name} {setting} gpu_vecenv"] = functools.partial(measure, name, options=options)
        for row, arguments in peers_of(name, options).items() if name != "ddpg" else ():
            rows[row] = functools.partial(measure_peer, arguments, options)
    for row, run in rows.items():
        results["rows"][row] = {"machine": facts, **run()}
        hidden = ("machine", "curve", "iterations_per_second")
        told = {key: value for key, value in results["rows"][row].items() if key not in hidden}
        print(row, told, flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
