"""Catalysis: exact, random and trained play. ``python benchmarks/findings_catalysis.py --device cuda:0``.

Cases are the twelve configurations. Ways to play are:

- ``exact``: the best episode by value iteration without a discount, and the lowest barrier of any path;
- ``random``: actions drawn at random;
- ``trained``: the preset; on a GPU with more worlds. The likeliest actions are played.

Writes ``benchmarks/results/findings_catalysis.json``; then run ``python tools/docs/findings_table.py``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import findings
import tyro
from findings import Measured, Options, Rows

from gpu_vecenv.envs.catalysis import optimum
from gpu_vecenv.envs.catalysis.spec import SPEC, configurations
from gpu_vecenv.train import TrainConfig

ENV = "WarpCatalysis-v0"
PLAYS = ("exact", "random", "trained")

EPISODES = 64
"""Worlds of random play. Likeliest actions are the same in all worlds, so one world is enough for them."""

WORLDS, STEPS = 1_024, 100_000_000
"""Worlds of a training on a GPU, and their steps in sum."""


def exact(case: str) -> Measured:
    """Return the numbers of the best episode, and the lowest barrier."""
    params = SPEC.resolve({"configuration": case})
    best = optimum.best_return(params)
    return {
        "agent": best.total,
        "barrier": best.barrier,
        "arrived": float(best.arrived),
        "steps": float(best.steps),
        "lowest_barrier": optimum.lowest_barrier(params),
    }


def base(case: str, options: Options) -> TrainConfig:
    """Return the options of a training."""
    more: dict[str, Any] = {} if options.device == "cpu" else {"num_envs": WORLDS, "total_steps": STEPS}
    return TrainConfig(ENV, env_kwargs={"configuration": case}, **more)


def main(options: Options) -> None:
    """Play all chosen cases in all chosen ways."""
    findings.one_thread()
    cases, plays = options.chosen(configurations(), PLAYS)
    rows = Rows("findings_catalysis", options)
    for case in cases:
        configs = findings.with_seeds(base(case, options), options)
        if "exact" in plays:
            rows.put(case, "exact", [{"measured": exact(case)}])
        if "random" in plays:
            rows.put(case, "random", findings.random_runs(configs, options, EPISODES, ["agent"]))
        if "trained" in plays:
            with tempfile.TemporaryDirectory() as folder:
                paths, facts = findings.train(case, configs, Path(folder))
                runs = findings.trained_runs(paths, options, 1, deterministic=True)
            rows.put(case, findings.on_device("trained", options.device), runs, **facts)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
