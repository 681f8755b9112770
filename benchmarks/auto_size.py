"""Sizes found for ``num_envs="auto"`` beside an exhaustive sweep: ``python benchmarks/auto_size.py --device cuda:0``.

A case is an env with a number of steps. The search runs first, in a process that has measured nothing yet in this case. Then the
sweep measures every size that the search may try, in the same way. At last the sizes found and the fastest ones of the sweep are
measured in turn; the figure is the median ratio of their steps a second. Stated beforehand: the ratio is at least 0.9, and a
search takes at most 30 s.

``--learning 20`` also trains the preset of each env for its steps, and the sizes found for theirs, with 20 seeds each. It
evaluates them on fresh worlds: CartPole by its return, Tag by the return of each role against random opponents. Stated
beforehand: sizes found learn as the preset does, within a fifth of what the preset learns beyond random play, by a one-sided test
at 95 %. A short run keeps the sizes of the preset, so its returns are the same ones. ``--learn-on cuda:0 cuda:1`` spreads these
runs over devices of one kind, each in a process of its device.

On the CPU, times are processor times, so that other programs do not count; the 30 s are those of the wall clock.
The file ``benchmarks/results/auto_size.json`` keeps what other devices recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import queue
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import shared  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.train import TrainConfig, Trainer, evaluate  # noqa: E402
from gpu_vecenv.train.config import PRESETS, AutoSizes  # noqa: E402
from gpu_vecenv.train.runner.auto_sizes import Plan, find_sizes, plan_search  # noqa: E402
from gpu_vecenv.train.runner.size_grid import Sizes  # noqa: E402

LEAST_RATIO, MOST_SECONDS, MARGIN = 0.9, 30.0, 0.2

CASES = {
    "cpu": {"WarpCartPole-v1": (300_000, 10_000_000), "WarpTag-v0": (50_000, 80_000)},
    "cuda": {"WarpCartPole-v1": (1_000_000, 100_000_000), "WarpTag-v0": (60_000_000,)},
}
"""Steps of runs by env, by kind of device. The first number is that of the preset. On the CPU,
fewer than 80,000 are a short run of Tag."""

ROLES = {"WarpCartPole-v1": ("agent",), "WarpTag-v0": ("tagger", "runner")}
"""Roles of each env."""


def auto(env_id: str, total_steps: int, device: str, seconds: float = AutoSizes.seconds) -> TrainConfig:
    """Return the options of a run whose sizes are found."""
    return TrainConfig(env_id, "auto", total_steps, device=device, auto_sizes=AutoSizes(seconds=seconds))


def sweep(plan: Plan, longest: float) -> list[tuple[Sizes, float]]:
    """Return the rates of all sizes whose trial takes at most ``longest`` seconds, by the highest rate so far."""
    rates: list[tuple[Sizes, float]] = []
    for place in sorted(plan.grid.places(), key=lambda place: -place.worlds):  # small sizes first
        sizes = plan.grid.at(place)
        best = max((rate for _, rate in rates), default=1e9)
        if sizes is None or not plan.grid.fits(sizes) or plan.measure.seconds(sizes.batch / best) > longest:
            continue
        rates.append((sizes, plan.measure(sizes)))
        print(f"  {sizes}: {rates[-1][1]:,.0f} steps/s", flush=True)
    return rates


def measure(env_id: str, total_steps: int, device: str, rounds: int, longest: float) -> dict[str, Any]:
    """Search, sweep, and compare."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    config = auto(env_id, total_steps, device)
    result = find_sizes(config, clock=clock)
    plan, start = plan_search(config, clock=clock), time.perf_counter()
    rates = sweep(plan, longest)
    swept_s = time.perf_counter() - start
    best, _ = max(rates, key=lambda each: each[1])
    pairs = [(plan.measure(result.sizes), plan.measure(best)) for _ in range(rounds)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    row = {
        "total_steps": total_steps,
        "search_s": result.table["seconds"],
        "tried": len(result.table["rows"]),
        "found": result.sizes._asdict(),
        "found_steps_per_second": statistics.median(ours for ours, _ in pairs),
        "sweep_s": swept_s,
        "swept": len(rates),
        "best": best._asdict(),
        "best_steps_per_second": statistics.median(theirs for _, theirs in pairs),
        "rounds": rounds,
        "ratio": ratio,
        "holds": ratio >= LEAST_RATIO and result.table["seconds"] <= MOST_SECONDS,
        "reference": result.table["reference"],
        "search": result.table["rows"],
        "sweep": [{**sizes._asdict(), "steps_per_second": rate} for sizes, rate in rates],
    }
    print(env_id, {name: row[name] for name in ("total_steps", "search_s", "found", "best", "ratio", "holds")}, flush=True)
    return row


def scores(config: TrainConfig, episodes: int) -> dict[str, float]:
    """Train a run, and return the mean return of each role on fresh worlds, against random opponents if there are any."""
    roles = ROLES[config.env_id]
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, quiet=True)
        trainer.train()
        path = trainer.save(Path(folder) / "run.pt")
        trainer.close()
        return {
            role: evaluate(
                path, episodes, {other: "random" for other in roles if other != role}, device=config.device
            ).mean_return[role]
            for role in roles
        }  # fmt: skip


def random_scores(config: TrainConfig, episodes: int) -> dict[str, float]:
    """Return the mean return of each role if all act at random."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, quiet=True)
        path = trainer.save(Path(folder) / "run.pt")
        trainer.close()
        means = evaluate(path, episodes, dict.fromkeys(ROLES[config.env_id], "random"), device=config.device)
    return dict(means.mean_return)


def all_scores(configs: list[TrainConfig], episodes: int, devices: list[str]) -> list[dict[str, float]]:
    """Return the scores of several runs, each on the first of the devices that is free."""
    free: queue.SimpleQueue[tuple[str, ProcessPoolExecutor]] = queue.SimpleQueue()

    def run(config: TrainConfig) -> dict[str, float]:
        """Train on a free device."""
        device, process = free.get()
        try:
            result = process.submit(scores, dataclasses.replace(config, device=device), episodes).result()
        finally:
            free.put((device, process))
        print(f"  {config.env_id} seed {config.seed}, worlds {config.num_envs or 'of the preset'}: {result}", flush=True)
        return result

    with contextlib.ExitStack() as stack:
        for device in devices:
            free.put((device, stack.enter_context(ProcessPoolExecutor(1, multiprocessing.get_context("spawn")))))
        return list(stack.enter_context(ThreadPoolExecutor(len(devices))).map(run, configs))


def learning(env_id: str, case: dict[str, Any], device: str, seeds: int, episodes: int, devices: list[str]) -> dict[str, Any]:
    """Train the preset for its steps and the sizes found for theirs with several seeds, and compare what they learn."""
    preset, sizes = TrainConfig(env_id, device=device), Sizes(**case["found"])
    options = PRESETS[env_id].on(device).ppo
    options = dataclasses.replace(options, num_steps=sizes.num_steps, num_minibatches=sizes.num_minibatches)
    sized = dataclasses.replace(preset, num_envs=sizes.num_envs, ppo=options, total_steps=case["total_steps"])
    configs = [dataclasses.replace(config, seed=seed) for config in (preset, sized) for seed in range(seeds)]
    of_runs = all_scores(configs, episodes, devices)
    runs = {"preset": of_runs[:seeds], "found": of_runs[seeds:]}
    compared = compare(runs, random_scores(preset, episodes))
    print(env_id, compared, flush=True)
    facts = {"machine": machine(devices[0]), "sizes": sizes._asdict(), "seeds": seeds, "episodes": episodes}
    return {**facts, "roles": compared, "runs": runs}


def compare(runs: dict[str, list[dict[str, float]]], random: dict[str, float]) -> dict[str, Any]:
    """Return means by role, and if the sizes found learn as the preset does.

    Args:
        runs: returns by role of each run, of ``preset`` and ``found``.
        random: returns by role of random play.
    """
    compared = {}
    for role, of_random in random.items():
        of_preset, of_found = ([run[role] for run in runs[name]] for name in ("preset", "found"))
        means = {"random": of_random, "preset": statistics.mean(of_preset), "found": statistics.mean(of_found)}
        margin = MARGIN * abs(means["preset"] - of_random)
        if of_found == of_preset:  # the same runs, or all have the highest return there is
            least = 0.0
        else:
            least = shared.equivalence(of_found, of_preset, margin)["welch_90"][0]  # the one-sided 95 % bound
        compared[role] = {**means, "margin": margin, "difference_at_least": least, "holds": least >= -margin}
    return compared


def main() -> None:
    """Measure every case and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0", help="cpu or cuda:0")
    parser.add_argument("--envs", nargs="+", default=list(ROLES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--longest", type=float, default=20.0, help="seconds of a trial of the sweep, at most")
    parser.add_argument("--learning", type=int, default=0, help="seeds of runs that learn; 0 trains none")
    parser.add_argument("--learn-on", nargs="+", help="devices of these runs; the one above if none is given")
    parser.add_argument("--only-learning", action="store_true", help="take the sizes of the committed results")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "auto_size.json")
    options = parser.parse_args()
    recorded = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "auto_size", "devices": {}}
    earlier = recorded["devices"].get(options.device, {"cases": {}, "learning": {}})
    facts = earlier["machine"] if options.only_learning else machine(options.device)
    row = {"machine": facts, "cases": earlier["cases"], "learning": earlier["learning"]}
    recorded["devices"][options.device] = row
    for env_id in options.envs:
        if not options.only_learning:
            of_kind = CASES[options.device.partition(":")[0]][env_id]
            row["cases"][env_id] = [measure(env_id, steps, options.device, options.rounds, options.longest) for steps in of_kind]
        cases = row["cases"][env_id]
        for case in cases if options.learning else ():
            name = env_id if case is cases[0] else f"{env_id}, {case['total_steps']:,} steps"
            row["learning"][name] = learning(
                env_id, case, options.device, options.learning, options.episodes, options.learn_on or [options.device]
            )
        options.out.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
