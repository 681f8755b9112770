"""The training loop: collect, update, log, save."""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import torch

from gpu_vecenv.train.build import load_policy, make_env, make_policies
from gpu_vecenv.train.checkpoint import FILE_NAME, load_checkpoint, save_checkpoint
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.episodes import EpisodeStats
from gpu_vecenv.train.errors import CheckpointError, ConfigError, RunExistsError
from gpu_vecenv.train.interrupt import StopRequest
from gpu_vecenv.train.logger import METRICS_FILE, Logger
from gpu_vecenv.train.policy_map import assign_rows, trainable_policies
from gpu_vecenv.train.ppo import PPO
from gpu_vecenv.train.presets import resolve
from gpu_vecenv.train.rollout import Collector, Rollout


class Trainer:
    """Multi-agent PPO on one device.

    Example::

        Trainer(TrainConfig("WarpTag-v0", total_steps=100_000, out="runs/tag")).train()
    """

    def __init__(self, config: TrainConfig, quiet: bool = False):
        """Build env, policies and learners.

        Args:
            config: the run's options.
            quiet: print nothing.

        Raises:
            ConfigError, PolicyMapError: options do not fit the env.
            RunExistsError: ``config.out`` already holds a run; go on with :meth:`resume`, or choose another.
        """
        if config.out is not None and (Path(config.out) / METRICS_FILE).exists():
            raise RunExistsError(f"{config.out}: expected a new folder, got one with a run in it")
        self._build(config, quiet)
        self.collector.reset(self.config.seed)
        for name, path in self.config.load_policies.items():
            load_policy(self.policies, name, path)

    @classmethod
    def resume(cls, path: str | Path, quiet: bool = False, **changes: Any) -> Trainer:
        """Go on from a checkpoint as if nothing had happened.

        Args:
            path: a checkpoint file or the folder of a run.
            quiet: print nothing.
            **changes: options to change, such as ``total_steps`` or ``out``.

        Raises:
            CheckpointError: the file is not a sound checkpoint.
        """
        state = load_checkpoint(path)
        config = dataclasses.replace(TrainConfig.from_json(state["config"]), **changes)
        trainer = cls.__new__(cls)
        trainer._build(config, quiet)
        trainer._load(state)
        return trainer

    def _build(self, config: TrainConfig, quiet: bool) -> None:
        resolved = resolve(config)
        self.quiet = quiet
        self.env = make_env(resolved)
        bootstrap = resolved.ppo.bootstrap_at_time_limit
        if bootstrap is None:
            bootstrap = self.env.num_agents == 1
        ppo = dataclasses.replace(resolved.ppo, bootstrap_at_time_limit=bootstrap)
        self.config = resolved = dataclasses.replace(resolved, ppo=ppo)
        self.device = torch.device(self.env.device)
        self.generator = torch.Generator(self.device).manual_seed(resolved.seed)
        self.assignment = assign_rows(self.env.role_rows, resolved.policy_map)
        self.policies = make_policies(self.env, resolved, self.assignment)
        self.rollout = Rollout.allocate(self.env, ppo.num_steps, bootstrap)
        self.collector = Collector(self.env, self.rollout, self.policies, self.assignment, self.generator)
        self.learners = {
            name: PPO(self.policies[name], self.assignment[name], self.rollout, ppo, self.generator)
            for name in trainable_policies(self.assignment, resolved.frozen)
        }
        self.episodes = EpisodeStats(self.assignment, self.rollout.num_rows).to(self.device)
        self.iteration = 0

    @property
    def steps_per_iteration(self) -> int:
        """World steps a rollout holds."""
        return self.config.num_envs * self.config.ppo.num_steps

    @property
    def num_iterations(self) -> int:
        """Iterations in the whole run."""
        return math.ceil(self.config.total_steps / self.steps_per_iteration)

    def train(self, iterations: int | None = None) -> dict[str, float]:
        """Train to the end, or for some iterations; Ctrl-C and SIGTERM finish the iteration, save and return.

        Args:
            iterations: at most so many; None goes on to ``total_steps``.

        Returns:
            The last iteration's metrics.
        """
        stop_at = self.num_iterations if iterations is None else self.iteration + iterations
        stop_at = min(stop_at, self.num_iterations)
        out = None if self.config.out is None else Path(self.config.out)
        total_steps = self.num_iterations * self.steps_per_iteration
        metrics: dict[str, float] = {}
        with StopRequest() as stop, Logger(out, total_steps, self.iteration, self.quiet) as logger:
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
                if out is not None and self.iteration % self.config.checkpoint_interval == 0:
                    self.save()
        if out is not None:
            path = self.save()
            if not self.quiet:
                print(f"{stop.received or 'done'}: iteration {self.iteration}, saved {path}", flush=True)
        return metrics

    def _iterate(self) -> dict[str, torch.Tensor]:
        """Collect and learn once; returns 0-d device tensors by name."""
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
            path: the file; None means ``checkpoint/latest.pt`` in the run's folder.

        Returns:
            The file.

        Raises:
            ConfigError: neither ``path`` nor ``config.out`` is given.
            OSError: the disk refused; an earlier checkpoint is untouched.
        """
        if path is None:
            if self.config.out is None:
                raise ConfigError("save: expected a path, or a run with `out`, got neither")
            path = Path(self.config.out) / "checkpoint" / FILE_NAME
        state = {
            "config": self.config.to_json(),
            "iteration": self.iteration,
            "policies": {name: policy.state_dict() for name, policy in self.policies.items()},
            "learners": {name: learner.state_dict() for name, learner in self.learners.items()},
            "collector": self.collector.state_dict(),
            "episodes": self.episodes.state_dict(),
        }
        save_checkpoint(path, state)
        return Path(path)

    def _load(self, state: dict[str, Any]) -> None:
        try:
            for name, policy in self.policies.items():
                policy.load_state_dict(state["policies"][name])
            for name, learner in self.learners.items():
                learner.load_state_dict(state["learners"][name])
            self.episodes.load_state_dict(state["episodes"])
            self.collector.load_state_dict(state["collector"])
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(
                f"expected the state of this run's env and policies, got {error}"
            ) from error
        self.iteration = state["iteration"]

    def close(self) -> None:
        """Close the env."""
        self.env.close()
