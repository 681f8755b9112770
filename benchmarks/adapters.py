"""Training speed of other libraries' trainers: rows (agent steps) a second of the examples, rollout and update.

Run from a checkout: ``python benchmarks/adapters.py --device cuda:0 --out benchmarks/results/adapter_speed.json``. The file keeps
what other devices recorded; what this device recorded before is replaced. Then ``python tools/docs/adapter_table.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from gpu_vecenv.bench.machine import machine

NUM_STEPS, NUM_ROLLOUTS = 16, 6
WORLDS = {"cpu": 512, "cuda": 4_096}


@dataclass(frozen=True)
class Case:
    """An example, the settings that are not its defaults, and where its rollouts lie: ``numpy`` or ``device``."""

    library: str
    distribution: str
    path: str
    example: str
    settings: dict[str, Any] = field(default_factory=dict)
    trains: bool = True

    def arguments(self, device: str, rollouts: int) -> dict[str, Any]:
        """Options that the example's ``Args`` are made with."""
        if not self.trains:
            return {"device": device, **self.settings}
        worlds = WORLDS[device.partition(":")[0]]
        return {"device": device, "num_envs": worlds, "total_steps": worlds * NUM_STEPS * rollouts, **self.settings}


SB3 = {"n_steps": NUM_STEPS, "n_epochs": 4, "num_minibatches": 8, "eval_episodes": 8}
OTHERS = {"num_steps": NUM_STEPS, "eval_episodes": 8}
# All in one process. skrl and TorchRL come last: importing them switches off checks of distributions, which cost time, for all.
CASES = [
    Case("Stable-Baselines3", "stable-baselines3", "numpy", "sb3_ppo", {"gpu_rollout": False, **SB3}),
    Case("Stable-Baselines3", "stable-baselines3", "device", "sb3_ppo", {"gpu_rollout": True, **SB3}),
    Case("CleanRL-style", "torch", "device", "cleanrl_ppo", OTHERS),
    Case("PettingZoo", "pettingzoo", "numpy", "pettingzoo_tag", {"episodes": 5}, trains=False),
    Case("rl_games", "rl-games", "device", "rl_games_ppo", OTHERS),
    Case("rsl_rl", "rsl-rl-lib", "device", "rsl_rl_ppo", OTHERS),
    Case("skrl", "skrl", "device", "skrl_ppo", OTHERS),
    Case("TorchRL", "torchrl", "device", "torchrl_ppo", {"num_steps": NUM_STEPS, "eval_worlds": 8}),
]


def measure(case: Case, device: str, rounds: int) -> dict[str, Any]:
    """The median of an example's own figure, in which evaluation does not count; or that it is missing, or its error."""
    row = {"library": case.library, "distribution": case.distribution, "path": case.path, "example": case.example}
    try:
        row["version"] = version(case.distribution)
    except PackageNotFoundError:
        return row | {"missing": True}
    try:
        return row | timed(case, device, rounds)
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"}


def timed(case: Case, device: str, rounds: int) -> dict[str, Any]:
    """Rows a second of one example, after a rollout that warms up."""
    torch.set_float32_matmul_precision("highest")  # rl_games lowers it for the whole process
    example = import_module(f"examples.{case.example}")
    run = example.train if case.trains else example.play
    arguments = case.arguments(device, NUM_ROLLOUTS)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        run(example.Args(**case.arguments(device, 1)))
        speeds = [run(example.Args(**arguments))["rows_per_second"] for _ in range(rounds)]
    return {
        "num_envs": arguments.get("num_envs", 1), "settings": arguments, "rounds": rounds,
        "rows_per_second": statistics.median(speeds), "rows_per_second_min": min(speeds), "rows_per_second_max": max(speeds),
    }  # fmt: skip


def merged(recorded: dict[str, Any], device: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """``recorded`` with this device's run in place of its last one."""
    facts = machine(device) | {"torch_threads": torch.get_num_threads()}
    run = {"command": f"python {sys.argv[0]} --device {device}", "machine": facts, "rows": rows}
    return {"benchmark": "adapters", "devices": {**recorded.get("devices", {}), device: run}}


def main() -> None:
    """Measure every case and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0", help="cpu or cuda:0")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/adapter_speed.json"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["TQDM_DISABLE"] = "1"
    rows = []
    for case in CASES:
        rows.append(measure(case, options.device, options.rounds))
        print({name: value for name, value in rows[-1].items() if name != "settings"}, flush=True)
    recorded = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(merged(recorded, options.device, rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
