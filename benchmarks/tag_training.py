"""Trains Tag with this package or with WarpDrive, in a process of its own, for ``benchmarks/against_warpdrive.py``.

``python benchmarks/tag_training.py JOB.json`` trains one run and writes its snapshots. A snapshot is a copy of both policies
after some seconds of training. Seconds count iterations alone, without copies. They start after the iterations that compile
kernels: the first one of WarpDrive, and the first three of this package, which captures a CUDA graph in the third. Start-up is
the time from the start of the process to that point.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.bench.peers import warpdrive as peer  # noqa: E402

OURS, WARPDRIVE = "gpu_vecenv", "WarpDrive"
ROLES = ("tagger", "runner")
SNAPSHOT_SECONDS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 45.0, 60.0, 90.0)
"""Times of snapshots; the one at 0 follows the start-up, and a further one is taken at the end."""
FIRST_ITERATIONS = 3
"""Our iterations that belong to the start-up."""
CHUNK_SECONDS = 0.2
"""Length of a part of our training; the clock is read after each part."""


@dataclass(frozen=True)
class Job:
    """One run."""

    name: str
    """Name of the run."""
    library: str
    """``OURS`` or ``WARPDRIVE``."""
    seed: int
    """Seed of weights and sampling."""
    num_envs: int
    """Number of worlds."""
    extended: bool
    """Agents also observe their own position, speed, acceleration, heading and role; ours alone."""
    num_taggers: int
    """Taggers in a world."""
    total_steps: int
    """Steps of all worlds after which our learning rate is 0 and our training ends."""
    seconds: float
    """Time limit of training."""
    device: str
    """``cuda:0`` or ``cpu``."""
    source: str | None
    """WarpDrive's source folder; without it, ours plays with its own defaults."""
    file: str
    """File of the snapshots."""
    launched: float
    """``time.time()`` when the process was started."""
    params: dict[str, Any]
    """Parameters of Tag that differ from WarpDrive's YAML file, for tests."""
    train: dict[str, Any]
    """Options of a run of this package that differ from the benchmark's."""


class Snapshots:
    """Copies of the policies, and the time of each."""

    def __init__(self, launched: float) -> None:
        """Start without copies."""
        self.taken: list[dict[str, Any]] = []
        self.start_up = 0.0
        self._launched = launched

    def offer(self, seconds: float, iterations: int, steps: int, policies: dict[str, Any], last: bool = False) -> None:
        """Copy the policies if a snapshot is due.

        Args:
            seconds: time of training since the start-up.
            iterations: iterations done, one update of each policy for WarpDrive.
            steps: steps of all worlds.
            policies: what to copy for each role.
            last: copy in any case.
        """
        if not self.taken:
            self.start_up = time.time() - self._launched
        due = sum(second <= seconds for second in SNAPSHOT_SECONDS)
        if last or due > sum(second <= (self.taken[-1]["seconds"] if self.taken else -1.0) for second in SNAPSHOT_SECONDS):
            copies = {role: to_cpu(policies[role]) for role in ROLES}
            self.taken.append({"seconds": seconds, "iterations": iterations, "steps": steps, "policies": copies})


def to_cpu(policy: Any) -> Any:
    """Return a copy of a module or of a dict of tensors on the CPU."""
    if isinstance(policy, torch.nn.Module):
        return copy.deepcopy(policy).cpu()
    return {name: x.detach().cpu().clone() for name, x in policy.items()}


def shipped() -> dict[str, Any]:
    """Return WarpDrive's configuration of continuous Tag."""
    import warp_drive
    import yaml

    file = Path(warp_drive.__file__).parent / "training" / "run_configs" / "tag_continuous.yaml"
    config: dict[str, Any] = yaml.safe_load(file.read_text())
    return config


def warpdrive_game(job: Job) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Import WarpDrive and make its env.

    Returns:
        Its configuration with the job's parameters; the same game and start as parameters of this package; the env.
    """
    os.environ[peer.SOURCE] = str(job.source)
    peer.import_source()
    from example_envs.tag_continuous.tag_continuous import TagContinuous

    config = shipped()
    config["env"] |= {"num_taggers": job.num_taggers, **job.params}
    env = TagContinuous(**config["env"])
    game = {name: value for name, value in config["env"].items() if name != "seed"}
    agents = [*env.taggers, *env.runners]  # our order: taggers first
    for name in ("starting_location_x", "starting_location_y", "starting_directions"):
        game[name] = np.asarray(getattr(env, name), np.float32)[agents].tolist()
    return config, game, env


def our_game(job: Job) -> dict[str, Any]:
    """Return the parameters of the game that WarpDrive plays; without its source our defaults, with one start for all worlds."""
    if job.source is None:
        return {"num_taggers": job.num_taggers, "fixed_start": True, **job.params}
    return warpdrive_game(job)[1]


def train_ours(job: Job) -> dict[str, Any]:
    """Train with this package's PPO and the settings ``TAG_PPO``."""
    from gpu_vecenv.train import TrainConfig, Trainer
    from gpu_vecenv.train.config.presets import TAG_PPO

    game = our_game(job)
    config = TrainConfig.from_options(
        {
            "env_id": "WarpTag-v0",
            "num_envs": job.num_envs,
            "total_steps": job.total_steps,
            "seed": job.seed,
            "device": job.device,
            "env_kwargs": {**game, "extended_observation": job.extended},
            "ppo": asdict(TAG_PPO),
            **job.train,
        }
    )
    trainer = Trainer(config, quiet=True)
    snapshots, seconds, chunk = Snapshots(job.launched), 0.0, 1
    trainer.train(FIRST_ITERATIONS)
    wait(job.device)
    while True:
        over = bool(trainer.finished) or seconds >= job.seconds
        steps = trainer.iteration * trainer.steps_per_iteration
        snapshots.offer(seconds, trainer.iteration, steps, trainer.policies, over)
        if over:
            break
        start = time.perf_counter()
        trainer.train(chunk)
        wait(job.device)
        took = time.perf_counter() - start
        seconds += took
        chunk = max(1, min(2 * chunk, round(CHUNK_SECONDS * chunk / took)))
    options = trainer.config.to_options()
    shown = ("num_envs", "total_steps", "stagger_starts", "kernels", "graph", "ppo", "network")
    settings = {name: options[name] for name in shown}
    settings["not_fused"] = trainer.parts.not_fused
    trainer.close()
    return result(job, snapshots, game, settings)


def wait(device: str) -> None:
    """Wait for the device's work."""
    if device != "cpu":
        torch.cuda.synchronize(device)


class TimeIsUp(Exception):
    """Ends WarpDrive's training."""


def train_warpdrive(job: Job) -> dict[str, Any]:
    """Train with WarpDrive's A2C and the settings of its configuration file, on its Numba back end.

    Tag's first observation is the same in all worlds, so it is computed once; WarpDrive computes it once for each world.
    """
    config, game, env = warpdrive_game(job)
    from warp_drive.env_wrapper import EnvWrapper
    from warp_drive.training.trainers.trainer_a2c import TrainerA2C

    first, reset = env.reset(), env.reset
    env.reset = lambda: (reset(), first)[1]
    wrapper = EnvWrapper(env_obj=env, num_envs=job.num_envs, env_backend="numba")
    wrapper.obs_at_reset = lambda: first
    folder = tempfile.mkdtemp()
    batch = config["trainer"]["train_batch_size"]
    config["trainer"] |= {"num_envs": job.num_envs, "env_backend": "numba", "seed": job.seed, "num_episodes": 10**9}
    config["saving"] |= {"basedir": folder}
    trainer = TrainerA2C(
        env_wrapper=wrapper,
        config=config,
        policy_tag_to_agent_id_map={"tagger": list(env.taggers), "runner": list(env.runners)},
        results_dir="run",
        verbose=False,
    )
    snapshots, log, zero, logged = Snapshots(job.launched), trainer._log_metrics, [], []

    def after_iteration(metrics: dict[str, Any], sample_params: Any = None) -> None:
        """Take the time that the trainer has summed over its iterations, which end with a synchronisation."""
        stats = trainer.perf_stats
        zero.append(stats.total_time)
        seconds, over = stats.total_time - zero[0], stats.total_time - zero[0] >= job.seconds
        if metrics:
            means = {role: {name: x for name, x in metrics[role].items() if "episodic" in name} for role in ROLES}
            logged.append({"seconds": seconds, "iterations": stats.iters, **means})
        policies = {role: model.state_dict() for role, model in trainer.models.items()}
        steps = stats.iters * (batch // job.num_envs) * job.num_envs
        snapshots.offer(seconds, stats.iters, steps, policies, over)
        log(metrics, sample_params)
        if over:
            raise TimeIsUp

    trainer._log_metrics = after_iteration
    try:
        trainer.train()
    except TimeIsUp:
        pass
    settings = {"trainer": config["trainer"], "policy": config["policy"]}
    return {**result(job, snapshots, game, settings), "logged": logged, "versions": versions()}


def versions() -> dict[str, str]:
    """Return the versions of what WarpDrive runs on."""
    from importlib.metadata import PackageNotFoundError, version

    installed = {}
    for name in ("numba", "numba-cuda", "llvmlite"):
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            installed[name] = "missing"
    return installed


def result(job: Job, snapshots: Snapshots, game: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a run's file."""
    return {
        "job": asdict(job),
        "machine": machine(job.device),
        "game": game,
        "settings": settings,
        "start_up": snapshots.start_up,
        "snapshots": snapshots.taken,
    }


def main(path: str) -> None:
    """Train the job in a file."""
    job = Job(**json.loads(Path(path).read_text()))
    content = (train_ours if job.library == OURS else train_warpdrive)(job)
    torch.save(content, job.file)


if __name__ == "__main__":
    main(sys.argv[1])
