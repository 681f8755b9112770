"""The training loop: collect, update, log, save."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpu_vecenv.errors import DeviceError
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.config.options import ResolvedConfig, TrainConfig
from gpu_vecenv.train.config.presets import resolve
from gpu_vecenv.train.errors import CheckpointError, ConfigError
from gpu_vecenv.train.returns.episodes import EpisodeStats
from gpu_vecenv.train.run_folder.best import BestReturn
from gpu_vecenv.train.run_folder.checkpoint import (
    checkpoint_in_errors,
    checkpoint_path,
    load_checkpoint,
    require_same_form,
    saved_config,
)  # fmt: skip
from gpu_vecenv.train.run_folder.checkpoint_file import save_checkpoint
from gpu_vecenv.train.run_folder.checkpoints import Checkpoints, run_of
from gpu_vecenv.train.run_folder.folder import RunFolder, lock_run_folder
from gpu_vecenv.train.run_folder.logger import Logger
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE
from gpu_vecenv.train.run_folder.terminal import say
from gpu_vecenv.train.runner.build import close_on_error, load_policy, make_env, make_policies
from gpu_vecenv.train.runner.collector import Collector
from gpu_vecenv.train.runner.interrupt import StopRequest
from gpu_vecenv.train.runner.torch_threads import torch_threads
from gpu_vecenv.train.storage.policy_map import assign_rows, trainable_policies
from gpu_vecenv.train.storage.rollout import Rollout

CHECKPOINT_S = 60.0
"""Seconds after which a new checkpoint is written even if ``checkpoint_interval`` has not passed."""


@dataclass(frozen=True)
class Resumed:
    """A checkpoint to resume from, read after the run's folder was locked."""

    path: Path
    """The checkpoint file, which error messages name."""
    state: dict[str, Any]
    """Content of the file, as ``load_checkpoint()`` returns it."""
    folder: RunFolder | None
    """The folder that the resumed run writes to; None if it writes no files."""


class Trainer:
    """Multi-agent PPO on one device.

    A trainer with ``config.out`` locks that folder until ``close()`` is called or the trainer is deleted. No other trainer can
    write to a locked folder.

    Example::

        Trainer(TrainConfig("WarpTag-v0", total_steps=100_000, out="runs/tag")).train()
    """

    def __init__(self, config: TrainConfig, quiet: bool = False, *, resumed: Resumed | None = None):
        """Build env, policies and learners.

        Args:
            config: the run's options.
            quiet: print nothing.
            resumed: checkpoint to resume from, passed by ``resume()``; None starts a new run.

        Raises:
            ConfigError, PolicyMapError: options do not fit the env.
            CheckpointError: a file of ``load_policies`` is unusable, or ``resumed`` does not fit the options.
            RunExistsError: ``config.out`` already holds a run; ``resume()`` continues it.
            RunLockedError: another trainer has locked ``config.out``.
            OSError: the run's folder cannot be made or written.
        """
        self.quiet = quiet
        self._resources = contextlib.ExitStack()
        self._folder: RunFolder | None = None
        with close_on_error(self):
            if resumed is not None:
                self._own_folder(resumed.folder)
                self._build(config)
                self._load(resumed.state, resumed.path)
                return
            self._build(config)
            self.collector.reset(self.config.seed)
            for name, path in self.config.load_policies.items():
                load_policy(self.policies, name, path)
            # The folder comes last, so that wrong options leave no folder behind.
            self._own_folder(None if config.out is None else lock_run_folder(Path(config.out)))

    @classmethod
    def resume(cls, path: str | Path, quiet: bool = False, **changes: Any) -> Trainer:
        """Resume from a checkpoint; the run ends as it would have without the interruption.

        If the run moves between CPU and GPU, a new generator draws its actions, seeded by the run's seed and the iteration.

        Args:
            path: the folder of a run, of which the newest checkpoint is read, or a checkpoint file. The run's folder is the
                default of ``out``. Checkpoints and metrics of later iterations are removed from it when the run goes on.
            quiet: print nothing.
            **changes: options to change, such as ``total_steps`` or ``out``.

        Raises:
            CheckpointError: the file is no checkpoint, is damaged, or does not fit the run.
            ConfigError: a value in ``changes`` is out of range.
            DeviceError: the run's device is missing here.
            RunExistsError: ``out`` holds another run.
            RunLockedError: another trainer has locked ``out``.
            OSError: the run's folder cannot be made or written.
        """
        run = Path(path) if Path(path).is_dir() else run_of(Path(path))
        if run is not None:
            changes.setdefault("out", str(run))
        file = checkpoint_path(path)
        out = dataclasses.replace(saved_config(path, load_checkpoint(path)), **changes).out
        folder = None if out is None else lock_run_folder(Path(out), file)
        with contextlib.nullcontext() if folder is None else close_on_error(folder):
            # Read again: another trainer may have saved before the folder was locked.
            file, state = checkpoint_path(path), load_checkpoint(path)
            config = dataclasses.replace(saved_config(path, state), **changes)
            try:
                with checkpoint_in_errors(path, changes):
                    return cls(config, quiet, resumed=Resumed(file, state, folder))
            except DeviceError as error:
                if "device" in changes:
                    raise
                raise DeviceError(
                    f"{path}: this run was on {config.device}, which is missing here ({error}) "
                    "Resume on another device: --device cpu (device='cpu')."
                ) from error

    def _own_folder(self, folder: RunFolder | None) -> None:
        """Store the run's folder; ``close()`` closes it."""
        if folder is not None:
            self._folder = folder
            self._resources.callback(folder.close)

    def _build(self, config: TrainConfig) -> None:
        resolved = resolve(config)
        self.env = make_env(resolved)
        self._resources.callback(self.env.close)
        with torch_threads(resolved.threads):
            self._build_training(resolved)

    def _build_training(self, resolved: ResolvedConfig) -> None:
        """Build everything but the env: policies, rollout, collector, learners and statistics."""
        bootstrap = resolved.ppo.bootstrap_at_time_limit
        if bootstrap is None:
            bootstrap = self.env.num_agents == 1
        ppo = dataclasses.replace(resolved.ppo, bootstrap_at_time_limit=bootstrap)
        self.config = resolved = dataclasses.replace(resolved, ppo=ppo, device=self.env.device)
        self.device = torch.device(self.env.device)
        self.generator = torch.Generator(self.device).manual_seed(resolved.seed)
        self.assignment = assign_rows(self.env.role_rows, resolved.policy_map, self.env.layout.groups)
        self.policies = make_policies(self.env, resolved, self.assignment)
        self.rollout = Rollout.allocate(self.env, ppo.num_steps, bootstrap)
        self.collector = Collector(self.env, self.rollout, self.policies, self.assignment, self.generator)
        self.learners = {
            name: PPO(self.policies[name], self.assignment[name], self.rollout, ppo, self.generator)
            for name in trainable_policies(self.assignment, resolved.frozen)
        }
        self.episodes = EpisodeStats(self.assignment, self.rollout.num_rows).to(self.device)
        self.iteration = 0
        self.best = BestReturn()

    @property
    def steps_per_iteration(self) -> int:
        """Steps of a rollout, summed over worlds."""
        return self.config.num_envs * self.config.ppo.num_steps

    @property
    def num_iterations(self) -> int:
        """Iterations in the whole run."""
        return math.ceil(self.config.total_steps / self.steps_per_iteration)

    def train(self, iterations: int | None = None) -> dict[str, float]:
        """Train to the end or for some iterations. After Ctrl-C or SIGTERM, finish the iteration, write a checkpoint and return.

        Args:
            iterations: largest number of iterations to run; None trains until ``total_steps``.

        Returns:
            The last iteration's metrics.

        Raises:
            RunGoneError: the run's folder was removed or replaced.
            RunLockedError: the trainer was closed or forked.
            MetricsError: the run's metrics are unreadable.
            OSError: a file cannot be written.
        """
        stop_at = self.num_iterations if iterations is None else self.iteration + iterations
        stop_at = min(stop_at, self.num_iterations)
        out = None if self.config.out is None else Path(self.config.out)
        total_steps = self.num_iterations * self.steps_per_iteration
        metrics: dict[str, float] = {}
        if not self.quiet:
            say(self._describe())
        if self._folder is not None:
            self._folder.check()
            self._checkpoints().remove_after(self.iteration)
        if out is not None and self.iteration == 0:
            self.save()  # From here on a killed run can be resumed.
        saved_at = time.monotonic()
        with (
            StopRequest() as stop,
            contextlib.nullcontext() if self._folder is None else self._folder.writing(),
            torch_threads(self.config.threads),
            Logger(
                out, total_steps, self.iteration, self.quiet, first_steps=self.iteration * self.steps_per_iteration,
                wandb=self.config.wandb, options=dataclasses.asdict(self.config),
            ) as logger,
        ):
            if self._folder is not None:
                self._folder.remember(METRICS_FILE)
            while self.iteration < stop_at and stop.received is None:
                started = time.perf_counter()
                device_metrics = self._iterate()
                # The one host sync of an iteration: all metrics in one read.
                values = torch.stack([x.double() for x in device_metrics.values()]).tolist()
                seconds = time.perf_counter() - started
                metrics = {
                    "iteration": self.iteration,
                    "steps": self.iteration * self.steps_per_iteration,
                    "steps_per_second": self.steps_per_iteration / seconds,
                    **dict(zip(device_metrics, values, strict=True)),
                }
                logger.log(metrics)
                due = self.iteration % self.config.checkpoint_interval == 0
                if out is not None and (due or time.monotonic() - saved_at >= CHECKPOINT_S):
                    logger.flush()  # No line of an iteration before a checkpoint may be missing.
                    self.save()
                    saved_at = time.monotonic()
            if out is not None:  # inside the block, so that a second signal of a closing terminal does not stop the save
                logger.flush()
                path = self.save()
        if out is not None and not self.quiet:
            say(f"{stop.received or 'done'}: iteration {self.iteration}, saved {path}")
        return metrics

    def _describe(self) -> str:
        """Return one line with the env, its size, the device and the folder of the run."""
        device = str(self.device)
        if self.device.type == "cuda":
            device += f" ({torch.cuda.get_device_name(self.device)})"
        return (
            f"{self.config.env_id}: {self.config.num_envs} worlds x {self.env.num_agents} agents on {device}, "
            f"torch threads: {self.config.threads}, out: {self.config.out}"
        )

    def _iterate(self) -> dict[str, torch.Tensor]:
        """Collect and learn once; return metrics, 0-d device tensors by name."""
        self.collector.collect()
        masks, alive = self.rollout.masks()
        metrics = self.episodes.update(self.rollout)
        progress = self.iteration / self.num_iterations
        for name, learner in self.learners.items():
            metrics.update({f"{key}/{name}": x for key, x in learner.update(masks, progress).items()})
        self.collector.advance(alive)
        self.iteration += 1
        return metrics

    def save(self, path: str | Path | None = None) -> Path:
        """Write a checkpoint.

        Args:
            path: the file; None means ``checkpoint/iteration-N.pt`` in the run's folder, where only the newest
                ``keep_checkpoints`` files stay.

        Returns:
            The file.

        Raises:
            ConfigError: neither ``path`` nor ``config.out`` is given.
            RunGoneError: the run's folder was removed or replaced since this trainer was made.
            OSError: the file cannot be written; an earlier checkpoint is unchanged.
        """
        if path is None:
            if self._folder is None:
                raise ConfigError("save: expected a path, or a run with `out`, got neither")
            self._folder.check()
            return self._checkpoints().save(self._state())
        save_checkpoint(path, self._state())
        return Path(path)

    def _checkpoints(self) -> Checkpoints:
        """Return the checkpoints of the run's folder."""
        assert self._folder is not None
        return Checkpoints(self._folder.path, self.config.keep_checkpoints)

    def _state(self) -> dict[str, Any]:
        """Return the content of a checkpoint."""
        return {
            "config": self.config.to_json(),
            "iteration": self.iteration,
            "policies": {name: policy.state_dict() for name, policy in self.policies.items()},
            "learners": {name: learner.state_dict() for name, learner in self.learners.items()},
            "collector": self.collector.state_dict(),
            "episodes": self.episodes.state_dict(),
            "reset_pool": self.env.get_reset_pool(),
            "best": self.best.state_dict(),
        }

    def _load(self, state: dict[str, Any], path: Path) -> None:
        self.collector.reset(self.config.seed)  # An env must be reset before its state can be set.
        expected = self._state()
        before = state["collector"].get("generator_device")
        if before not in ("cpu", "cuda"):
            raise CheckpointError(f"{path}: collector/generator_device: expected 'cpu' or 'cuda', got {before!r}")
        if before != self.device.type:
            expected["collector"]["generator"] = state["collector"].get("generator")  # not loaded: its size differs by device
        require_same_form(state["collector"], expected["collector"], f"{path}: collector")
        require_same_form(state["episodes"], expected["episodes"], f"{path}: episodes")
        try:
            for name, policy in self.policies.items():
                require_same_form(state["policies"].get(name), expected["policies"][name], f"{path}: policies/{name}")
                policy.load_state_dict(state["policies"][name])
            for name, learner in self.learners.items():
                learner.load_state_dict(state["learners"][name], f"{path}: learners/{name}")
            self.episodes.load_state_dict(state["episodes"])
            self.best.load_state_dict(state["best"], f"{path}: best")
            # Before the state of the env: without a pool, a state that is set may hold no entries of one.
            self.env.set_reset_pool(state["reset_pool"] or None)
            self.collector.load_state_dict(state["collector"])
        except CheckpointError:
            raise
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise CheckpointError(
                f"{path}: expected the state of this run's env and policies, got {type(error).__name__}: {error}"
            ) from error
        self.iteration = state["iteration"]
        if before != self.device.type:
            mixed = np.random.SeedSequence([self.config.seed, self.iteration]).generate_state(1)
            self.generator.manual_seed(int(mixed[0]))
            if not self.quiet:
                print(
                    f"{path}: moved from {before} to {self.device.type}; "
                    "the rest of the run is not bit-identical to an uninterrupted one",
                    flush=True,
                )

    def close(self) -> None:
        """Close the env and unlock the run's folder."""
        self._resources.close()
