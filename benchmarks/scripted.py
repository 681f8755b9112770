"""Returns of scripted policies against random opponents: ``python benchmarks/scripted.py``.

Each game of ``learning.py`` whose env ships scripted policies is played by one of them at a time, while the other roles act at
random: one episode in each of 100 worlds, with each of several seeds. Writes ``benchmarks/results/scripted.json``, the yardstick
in the tables of what algorithms learn.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import learning  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.train import evaluate  # noqa: E402
from gpu_vecenv.train.config import resolve  # noqa: E402
from gpu_vecenv.train.policies.function import scripted_of  # noqa: E402
from gpu_vecenv.train.runner.build import make_env  # noqa: E402


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    seeds: int = 5
    """Evaluations of a policy, with the seeds 0, 1, ..."""
    episodes: int = 100
    """Episodes of an evaluation."""
    device: str = "cpu"
    """``cpu`` or ``cuda:0``."""
    out: Path = ROOT / "benchmarks" / "results" / "scripted.json"
    """File of the results."""


def measure(options: Options) -> dict[str, Any]:
    """Return case to role to the name of its scripted policy and the mean return of each seed; games alike are played once."""
    played: dict[str, Any] = {}
    cases = {}
    for case, config in (learning.CASES | learning.OF_ALGORITHMS).items():
        resolved = resolve(dataclasses.replace(config, device=options.device))
        with contextlib.closing(make_env(resolved, 1)) as env:
            scripted, roles = scripted_of(env), list(env.role_counts)
        if not scripted:
            continue
        game = json.dumps([resolved.env_id, resolved.env_kwargs], sort_keys=True)
        if game not in played:
            played[game] = {}
            for name, each in scripted.items():
                acts = {role: name if role == each.role else "random" for role in roles}
                results = [
                    evaluate(dataclasses.replace(resolved, seed=seed), options.episodes, acts) for seed in range(options.seeds)
                ]
                played[game][each.role] = {"policy": name, "returns": [result.mean_return[each.role] for result in results]}
        cases[case] = played[game]
        print(case, cases[case], flush=True)
    return {"benchmark": "scripted", "machine": machine(options.device), "cases": cases}


if __name__ == "__main__":
    chosen = tyro.cli(Options, description=__doc__)
    measured = measure(chosen)
    lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(row)}" for case, row in measured["cases"].items())
    head = f' "benchmark": "scripted",\n "machine": {json.dumps(measured["machine"])},\n "cases": {{\n'
    chosen.out.write_text(f"{{\n{head}{lines}\n }}\n}}\n")
    print(chosen.out)
