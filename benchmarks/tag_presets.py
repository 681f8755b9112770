"""Play after Tag's preset for a GPU against play after its preset for the CPU: ``python benchmarks/tag_presets.py``.

Both presets train on the same GPU, so that nothing but their options differs. Then the taggers of each play against the runners
of each: one episode in each of 200 worlds, with actions drawn from the policies. Writes ``benchmarks/results/tag_presets.json``.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.train import TrainConfig, Trainer, evaluate  # noqa: E402
from gpu_vecenv.train.config import PRESETS, Preset  # noqa: E402
from gpu_vecenv.train.run_folder.intervals import mean_interval  # noqa: E402

ENV_ID = "WarpTag-v0"
DEVICES = ("cpu", "gpu")
"""Devices that the presets are for."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    device: str = "cuda:0"
    """Device of trainings and matches."""
    episodes: int = 200
    """Episodes of a match."""
    seed: int = 1
    """Seed of the trainings."""
    steps: int | None = None
    """Steps of each training; by default those of the preset."""
    out: Path = ROOT / "benchmarks" / "results" / "tag_presets.json"
    """File of the results."""


def train(preset: Preset, options: Options, folder: Path) -> dict[str, Any]:
    """Train with a preset and return its sizes, the seconds of its iterations and those of the whole call."""
    steps = options.steps or preset.total_steps
    of_run = {"total_steps": steps, "num_envs": preset.num_envs, "ppo": preset.ppo}
    config = TrainConfig(ENV_ID, **of_run, device=options.device, seed=options.seed, out=str(folder))
    start = time.perf_counter()
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        ready = time.perf_counter()
        trainer.train()
    end = time.perf_counter()
    sizes = {"num_envs": preset.num_envs, "num_steps": preset.ppo.num_steps, "total_steps": steps}
    return {**sizes, "start_s": ready - start, "train_s": end - ready}


def main(options: Options) -> None:
    """Train both, play the matches, print them and write the file."""
    trained, matches = {}, []
    with tempfile.TemporaryDirectory() as name:
        for kind in DEVICES:
            trained[kind] = train(PRESETS[ENV_ID].on("cpu" if kind == "cpu" else options.device), options, Path(name) / kind)
            print(kind, {key: round(value, 1) for key, value in trained[kind].items()}, flush=True)
        for taggers in DEVICES:
            for runners in DEVICES:
                policies = {"tagger": f"{name}/{taggers}", "runner": f"{name}/{runners}"}
                match = evaluate(None, options.episodes, policies, device=options.device, seed=options.seed)
                returns = {role: mean_interval(values) for role, values in match.episode_returns.items()}
                caught = match.mean_exits["runner"]
                matches.append({"taggers": taggers, "runners": runners, "returns": returns, "caught": caught})
                print(f"taggers of {taggers}, runners of {runners}: {returns}, {caught:.1f} caught", flush=True)
    facts = {"machine": machine(options.device), "seed": options.seed, "episodes": options.episodes}
    options.out.write_text(json.dumps({**facts, "trained": trained, "matches": matches}, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options))
