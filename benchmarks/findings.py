"""Rows of the findings on envs of the real world, and the runs that fill them; ``findings_catalysis.py`` and others use it.

A row is one way to play one case, such as random play of RICE-N without negotiation. It has a run for each seed, or one run if
nothing in it is random. A run has ``measured``, numbers by name, of which ``tools/docs/findings_table.py`` shows means and
intervals.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import shared  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.train import TrainConfig, Trainer, evaluate  # noqa: E402
from gpu_vecenv.train.run_folder.intervals import mean_interval  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"

Measured = dict[str, float]
"""Numbers by name."""

SHOWN_OPTIONS = (
    "num_envs", "env_kwargs", "policy_map", "frozen", "ppo", "network", "stagger_starts", "kernels", "graph", "precision",
)  # fmt: skip
"""Options of a training that its rows hold."""

EVERY = 5.0
"""Least seconds between two lines about a training that goes on."""

PIECES = 20
"""Pieces of a training; after each, a line may be printed."""


@dataclass(frozen=True)
class Options:
    """Options that the scripts share."""

    device: str = "cpu"
    """``cpu`` or ``cuda:0``."""
    seeds: int = 5
    """Runs of a row that is random, with the seeds 0, 1, ..."""
    cases: tuple[str, ...] = ()
    """Cases to play; all by default."""
    plays: tuple[str, ...] = ()
    """Ways to play; all by default."""
    total_steps: int | None = None
    """Steps of a training, summed over worlds; None: those of the script."""
    out: Path | None = None
    """File of the results; None: that in ``benchmarks/results``. Rows that are not played again stay."""

    def chosen(self, cases: Iterable[str], plays: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the cases and the ways to play that the options ask for.

        Raises:
            SystemExit: the options name another one.
        """
        every = {"cases": list(cases), "plays": list(plays)}
        for option, names in every.items():
            if unknown := [name for name in getattr(self, option) if name not in names]:
                raise SystemExit(f"--{option}: expected some of {', '.join(names)}, got {', '.join(unknown)}")
        return [x for x in every["cases"] if x in (self.cases or every["cases"])], [
            x for x in every["plays"] if x in (self.plays or every["plays"])
        ]


def on_device(play: str, device: str) -> str:
    """Return the name of a row whose numbers depend on the kind of device."""
    return f"{play} on a {'CPU' if device == 'cpu' else 'GPU'}"


class Rows:
    """The rows of a file, which is written after each run, so that an interruption leaves what is done."""

    def __init__(self, benchmark: str, options: Options) -> None:
        """Note the machine and the command."""
        self.path = options.out or RESULTS / f"{benchmark}.json"
        self._benchmark, self._machine = benchmark, machine(options.device)
        self._command = f"python benchmarks/{shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}"

    def put(self, case: str, play: str, runs: Sequence[Mapping[str, Any]], **facts: Any) -> None:
        """Store a row in place of an earlier one, write the file and print the row."""
        results: dict[str, Any] = {"benchmark": self._benchmark, "rows": {}}
        if self.path.exists():  # read again, because a run of other cases may have added rows
            results = json.loads(self.path.read_text())
        head = {"case": case, "play": play, "command": self._command, "machine": self._machine, **facts}
        results["rows"][f"{case}: {play}"] = {**head, "runs": list(runs)}
        shared.write(self.path, results, "rows")
        print(f"{case}: {play}: {shown([run['measured'] for run in runs])}", flush=True)


def shown(measured: Sequence[Measured]) -> str:
    """Return means over runs, with half the width of their 95 % intervals."""
    parts = []
    for name in measured[0]:
        mean, half = mean_interval([one[name] for one in measured])
        parts.append(f"{name} {mean:.4g}" + (f" ± {half:.2g}" if len(measured) > 1 else ""))
    return ", ".join(parts)


def train(
    label: str, configs: Sequence[TrainConfig], folder: Path, prepare: Callable[[Trainer], object] = lambda trainer: None
) -> tuple[list[Path], dict[str, Any]]:
    """Train runs that differ in their seed, one after the other.

    Args:
        label: words for progress.
        configs: options of each run.
        folder: existing folder for the checkpoint of each run.
        prepare: called with each trainer before it trains.

    Returns:
        The checkpoints in the order of the runs, and facts for rows: ``seconds`` of all trainings, ``start_up`` before them in
        seconds, with compilation, ``steps`` of each run, and ``config``, the options of the last one.

    Raises:
        SystemExit: a signal ended a training.
    """
    paths, facts = [], {"seconds": 0.0, "start_up": 0.0}
    for config in configs:
        before = time.perf_counter()
        trainer = Trainer(config, quiet=True)
        prepare(trainer)
        start = said = time.perf_counter()
        while not trainer.finished:
            piece = min(-(-trainer.num_iterations // PIECES), trainer.num_iterations - trainer.iteration)
            wanted = trainer.iteration + piece
            metrics = trainer.train(piece)
            if trainer.iteration < wanted:  # Ctrl-C or SIGTERM, which the trainer takes as a wish to pause
                raise SystemExit("stopped")
            if time.perf_counter() - said > EVERY:
                said = time.perf_counter()
                returns = [f"{x.rpartition('/')[2]} {y:.5g}" for x, y in metrics.items() if x.startswith("recent_return/")]
                done = f"seed {config.seed}: iteration {trainer.iteration} of {trainer.num_iterations}"
                print(f"  {label}, {done}, recent return: {', '.join(returns)}", flush=True)
        end = time.perf_counter()
        paths.append(trainer.save(folder / f"{label}-{config.seed}.pt"))
        trainer.close()
        facts = {"seconds": facts["seconds"] + end - start, "start_up": facts["start_up"] + start - before}
    used = trainer.config.to_options()
    facts = {name: round(seconds, 1) for name, seconds in facts.items()}
    return paths, {**facts, "steps": int(metrics["steps"]), "config": {name: used[name] for name in SHOWN_OPTIONS}}


def measure(
    target: Path | TrainConfig, options: Options, episodes: int, random: Iterable[str] = (), deterministic: bool = False
) -> Measured:
    """Return means over episodes: the return of each role by its name, the metrics of the env, and ``steps``.

    Args:
        target: a checkpoint, or options.
        options: options of the script.
        episodes: number of worlds, each played for one episode.
        random: roles that act at random; others act as they have learned.
        deterministic: take the likeliest actions instead of draws.
    """
    means = evaluate(target, episodes, dict.fromkeys(random, "random"), deterministic, device=options.device)
    return {**means.mean_return, **means.mean_metrics, "steps": means.mean_length}


def random_runs(configs: Sequence[TrainConfig], options: Options, episodes: int, roles: Iterable[str]) -> list[dict[str, Any]]:
    """Return the runs of random play of all roles, one for each seed."""
    return [{"seed": config.seed, "measured": measure(config, options, episodes, roles)} for config in configs]


def trained_runs(
    paths: Sequence[Path], options: Options, episodes: int, random: Iterable[str] = (), deterministic: bool = False
) -> list[dict[str, Any]]:
    """Return the runs of trained play, one for each checkpoint of ``train()``; see ``measure()``."""
    return [{"seed": x, "measured": measure(y, options, episodes, random, deterministic)} for x, y in enumerate(paths)]


def with_seeds(config: TrainConfig, options: Options) -> list[TrainConfig]:
    """Return the options of a run for each seed, on the chosen device and with the chosen number of steps."""
    steps = {} if options.total_steps is None else {"total_steps": options.total_steps}
    return [dataclasses.replace(config, seed=seed, device=options.device, **steps) for seed in range(options.seeds)]


def one_thread() -> None:
    """Let kernels on the CPU use one thread, as torch does, so that seconds on a CPU are those of one core."""
    os.environ["GPU_VECENV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
