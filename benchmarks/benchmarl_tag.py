"""Training speed of BenchMARL's MAPPO on Tag: rows (agent steps) a second through our task, and through TorchRL's CPU envs.

Each case is an ``Experiment`` with the same networks and settings, of 5 taggers and 10 runners:

- ``gpu_vecenv``: ``BenchMARLTask``, all worlds in one env on the device;
- ``pettingzoo``: the same game as ``PettingZooEnv`` in TorchRL's ``PettingZooWrapper``, a process for each world on the CPU;
- ``vmas cpu`` and ``vmas``: BenchMARL's own task ``VmasTask.SIMPLE_TAG``, which has other rules and observations, with its
  worlds in one env on the CPU and on the device.

Networks are trained on the device in all cases. Run from a checkout:
``python benchmarks/benchmarl_tag.py --device cuda:0 --out benchmarks/results/benchmarl_tag.json``. The file keeps what other
devices recorded; what this device recorded before is replaced.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import PettingZooClass, TaskClass, VmasTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from torchrl.envs import PettingZooWrapper

sys.path.insert(0, str(Path(__file__).parent.parent))
from gpu_vecenv.adapters.benchmarl import BenchMARLTask
from gpu_vecenv.adapters.pettingzoo import PettingZooEnv
from gpu_vecenv.bench.machine import machine

NUM_STEPS = 16
NUM_AGENTS = 15
WARM_UP = 2
# No agent leaves, because each row of a wrapped PettingZoo env then is an agent in the game, as in our task.
GAME = {
    "num_taggers": 5, "num_runners": 10, "episode_length": 100, "runner_exits_game_after_tagged": False,
    "num_acceleration_levels": 2, "num_turn_levels": 2, "num_other_agents_observed": 5,
}  # fmt: skip
VMAS = {"num_adversaries": 5, "num_good_agents": 10, "max_steps": 100}
PACKAGES = ("benchmarl", "torchrl", "tensordict", "vmas", "pettingzoo")


class PettingZooTag(PettingZooClass):
    """The game as a task of PettingZoo envs, each of one world on the CPU."""

    def get_env_fun(self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any) -> Any:
        """Return a function that makes one env; BenchMARL makes as many as it needs."""
        return partial(_pettingzoo, seed)

    def max_steps(self, env: Any) -> int:
        """Length of an episode."""
        return int(GAME["episode_length"])

    def supports_discrete_actions(self) -> bool:
        """Return True."""
        return True


def _pettingzoo(seed: int | None) -> PettingZooWrapper:
    env = PettingZooEnv("WarpTag-v0", device="cpu", flatten_actions=True, **GAME)
    return PettingZooWrapper(env, categorical_actions=True, done_on_any=False, seed=seed, device="cpu")


@dataclass
class Case:
    """A task, the device that steps it, and the number of its worlds."""

    name: str
    task: TaskClass
    sampling_device: str
    worlds: int
    processes: bool = False


def cases(device: str) -> list[Case]:
    """All cases of a device."""
    gpu = device != "cpu"
    vmas = VmasTask.SIMPLE_TAG.get_from_yaml()
    vmas.config.update(VMAS)
    on_cpu = [
        Case("gpu_vecenv", BenchMARLTask("WarpTag-v0", continuous_actions=False, **GAME), device, 4096 if gpu else 256),
        Case("pettingzoo", PettingZooTag("TAG", {}), "cpu", min(16, os.cpu_count() or 1), processes=True),
        Case("vmas cpu", vmas, "cpu", 512 if gpu else 64),
    ]
    return [*on_cpu, Case("vmas", vmas, device, 4096)] if gpu else on_cpu


class Times(Callback):
    """Seconds of each iteration and of its collection."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device, self.collected, self.updated = device, [], []

    def now(self) -> float:
        """Seconds, after the device has finished."""
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def on_batch_collected(self, batch: Any) -> None:
        """Note the end of a collection."""
        self.collected.append(self.now())

    def on_train_end(self, training_td: Any, group: str) -> None:
        """Note the end of the update of a group; that of the last group counts."""
        del self.updated[len(self.collected) - 1 :]
        self.updated.append(self.now())


def measure(case: Case, device: str, iterations: int) -> dict[str, Any]:
    """Rows a second of a case: the median of its iterations after the warm-up."""
    frames = case.worlds * NUM_STEPS
    config, times = ExperimentConfig.get_from_yaml(), Times(device)
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "sampling_device": case.sampling_device, "train_device": device, "buffer_device": device,
            "prefer_continuous_actions": False, "parallel_collection": case.processes, "max_n_frames": None,
            "max_n_iters": WARM_UP + iterations, "on_policy_n_envs_per_worker": case.worlds,
            "on_policy_collected_frames_per_batch": frames, "on_policy_n_minibatch_iters": 4,
            "on_policy_minibatch_size": frames // 4, "evaluation": False, "loggers": [], "create_json": False,
            "save_folder": folder,
        }  # fmt: skip
        for name, value in settings.items():
            setattr(config, name, value)
        model = MlpConfig.get_from_yaml()
        model.num_cells = [64, 64]
        with contextlib.redirect_stderr(open(os.devnull, "w")):
            Experiment(case.task, MappoConfig.get_from_yaml(), model, 0, config, callbacks=[times]).run()
    starts = times.updated[WARM_UP - 1 : -1]
    whole = [end - start for start, end in zip(starts, times.updated[WARM_UP:], strict=True)]
    collection = [end - start for start, end in zip(starts, times.collected[WARM_UP:], strict=True)]
    rows = frames * NUM_AGENTS
    return {
        "case": case.name, "worlds": case.worlds, "sampling_device": case.sampling_device, "iterations": iterations,
        "rows_per_second": rows / statistics.median(whole), "rows_per_second_min": rows / max(whole),
        "rows_per_second_max": rows / min(whole), "rows_per_second_of_collection": rows / statistics.median(collection),
    }  # fmt: skip


def main() -> None:
    """Measure every case and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0", help="cpu or cuda:0")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/benchmarl_tag.json"))
    parser.add_argument("--iterations", type=int, default=5, help="measured iterations of a case")
    options = parser.parse_args()
    rows = []
    for case in cases(options.device):
        rows.append(measure(case, options.device, options.iterations))
        print(rows[-1], flush=True)
    facts = machine(options.device) | {"torch_threads": torch.get_num_threads()}
    run = {
        "command": f"python {sys.argv[0]} --device {options.device}", "machine": facts,
        "versions": {name: version(name) for name in PACKAGES}, "steps": NUM_STEPS, "game": GAME, "vmas": VMAS, "rows": rows,
    }  # fmt: skip
    recorded = json.loads(options.out.read_text())["devices"] if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    result = {"benchmark": "benchmarl_tag", "devices": {**recorded, options.device: run}}
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
