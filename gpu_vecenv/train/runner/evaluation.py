"""Plays episodes with trained or random policies: measures their means, or yields states for a renderer."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_vecenv.train.config import ResolvedConfig, TrainConfig, resolve, resolve_new
from gpu_vecenv.train.config.checks import LONG_COUNT, Check, checked, integer, require, require_known
from gpu_vecenv.train.errors import ConfigError, UnfinishedError
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_in_errors, load_checkpoint, saved_config
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.measure import LONGER, Evaluation, measure, most_steps, piece_steps, step_limit, too_long
from gpu_vecenv.train.runner.players import Players
from gpu_vecenv.train.runner.torch_settings import torch_threads
from gpu_vecenv.vector.outputs.views import MAX_WORLDS

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

OPTIONS = ("env_id", "seed", "device", "env_kwargs", "load_policies", "network", "threads", "policies")
"""Options of a run that an evaluation reads. The others would change nothing in it."""

MAPPING = Check(lambda value: isinstance(value, Mapping), "a mapping of roles to policy names").or_none()
"""Values of ``policy_map``."""


def evaluation_seed(seed: int) -> int:
    """Return a seed for evaluations, so that they do not repeat the worlds of the training that has this seed."""
    return int.from_bytes(hashlib.sha256(f"evaluation/{seed}".encode()).digest()[:8], "little")


def _setup(target: str | Path | TrainConfig, changes: Mapping[str, Any]) -> tuple[ResolvedConfig, str | Path | None]:
    """Return resolved options, and ``target`` if it is a checkpoint or a run's folder; None for a config.

    Raises:
        ConfigError: a change is none of ``OPTIONS``, or is out of range; ``target`` is none of the three.
        CheckpointError: the checkpoint is unusable.
    """
    require_known("evaluation", changes, OPTIONS)
    if isinstance(target, TrainConfig):
        return resolve_new(dataclasses.replace(target, **changes)), None
    require(isinstance(target, str | os.PathLike), "target", "a checkpoint file, the folder of a run or a TrainConfig", target)
    config = saved_config(target, load_checkpoint(target))
    # A run may be evaluated on another device than it was trained on, and its policies have learned since they were loaded.
    return resolve(dataclasses.replace(config, **{"device": "auto", "load_policies": {}, **changes})), target


def evaluate(
    target: str | Path | TrainConfig,
    episodes: int = 64,
    policy_map: Mapping[str, str] | None = None,
    deterministic: bool = False,
    progress: bool = False,
    task: str = "",
    max_steps: int | None = None,
    **changes: Any,
) -> Evaluation:
    """Play one episode in each world and return the means.

    Args:
        target: a checkpoint file, a run's folder, or a config. With a config, policies have their initial weights, or those of
            its ``load_policies``.
        episodes: number of worlds.
        policy_map: role to policy name, for roles with another policy than in training: ``random``, another policy of the
            checkpoint, or one of ``load_policies``.
        deterministic: take the likeliest actions instead of draws.
        progress: show the progress on standard error.
        task: text to show before the first progress.
        max_steps: most steps of an episode; longer ones raise an error. None: 10,000, or the env's time limit if it is longer.
        **changes: config fields to change: ``seed``, ``device``, ``threads``, ``env_kwargs``, ``env_id``, ``network``,
            ``policies``, or ``load_policies``, whose files replace policies of the checkpoint. Others would change nothing and
            are refused. The default of ``device`` is ``auto``, not the device of the run; the default of ``seed`` is derived from
            that of the run, so that evaluations do not repeat the worlds of the training.

    Raises:
        CheckpointError: a checkpoint is unusable.
        ConfigError: an option is out of range, or changes nothing in an evaluation.
        PolicyMapError: the roles do not fit.
        UnfinishedError: an episode did not end within ``max_steps``. The message holds what was seen so far.
        DeviceError, CompileError, OutOfMemoryError: the env cannot be made.
    """
    config, checkpoint = _setup(target, changes)
    episodes = checked("episodes", episodes, integer(1, MAX_WORLDS))
    max_steps = checked("max_steps", max_steps, LONG_COUNT.or_none())
    checked("policy_map", policy_map, MAPPING)
    if task and not progress:
        raise ConfigError(f"task: expected it with progress=True, which shows it, got {task!r} without")
    with contextlib.ExitStack() as resources:
        display = resources.enter_context(Progress(sys.stderr, not progress, task))
        with checkpoint_in_errors(checkpoint, changes):
            env = resources.enter_context(contextlib.closing(make_env(config, episodes)))
        resources.enter_context(torch_threads(config.threads))
        seed = config.seed if "seed" in changes else evaluation_seed(config.seed)
        players = Players.loaded(env, config, checkpoint, policy_map, "load_policies" in changes, piece_steps(env))
        return measure(players, seed, deterministic, display, max_steps)


def play(
    target: str | Path | TrainConfig,
    episodes: int = 1,
    policy_map: Mapping[str, str] | None = None,
    deterministic: bool = False,
    on_step: Callable[[float], object] = lambda played: None,
    max_steps: int | None = None,
    **changes: Any,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield one world's states for a renderer, from the start to the end of every episode.

    Args:
        target: see ``evaluate()``.
        episodes: number of episodes, played one after the other.
        policy_map: see ``evaluate()``.
        deterministic: take the likeliest actions instead of draws.
        on_step: function called after each step, before its state is yielded. Its argument is the number of episodes played so
            far. An unfinished episode counts as the fraction of its time limit that has passed, or as 0 without a time limit.
        max_steps: see ``evaluate()``.
        **changes: config fields to change, see ``evaluate()``.

    Yields:
        ``get_state()`` of the world, as NumPy arrays without the leading axis.

    Raises:
        CheckpointError: a checkpoint is unusable.
        ConfigError: an option is out of range, or changes nothing.
        PolicyMapError: the roles do not fit.
        UnfinishedError: an episode did not end within ``max_steps``; its states were yielded.
        DeviceError, CompileError, OutOfMemoryError: the env cannot be made.
    """
    config, checkpoint = _setup(target, changes)
    episodes = checked("episodes", episodes, LONG_COUNT)
    max_steps = checked("max_steps", max_steps, LONG_COUNT.or_none())
    checked("policy_map", policy_map, MAPPING)
    # Autoreset would replace the last state of an episode.
    with checkpoint_in_errors(checkpoint, changes):
        new_env = make_env(config, 1, "disabled")
    with contextlib.closing(new_env) as env:
        with torch_threads(config.threads):
            players = Players.loaded(env, config, checkpoint, policy_map, "load_policies" in changes)
            most = most_steps(env, max_steps)
            seed = config.seed if "seed" in changes else evaluation_seed(config.seed)
        for episode in range(episodes):
            players.collector.reset((seed + episode) % 2**64)
            yield _world_state(env)
            ended, steps = False, 0
            while not ended:
                if steps >= most:
                    raise UnfinishedError(f"{too_long(most)}, got episode {episode + 1} that did not. {LONGER}")
                with torch_threads(config.threads):  # code that runs between states keeps the process's number of threads
                    step = players.step(deterministic)
                ended = bool((step.terminated | step.truncated).any())
                steps += 1
                on_step(episode + (1.0 if ended else steps / step_limit(env)))
                yield _world_state(env)


def _world_state(env: GpuVectorEnv) -> dict[str, np.ndarray]:
    return {name: x[0].cpu().numpy() for name, x in env.get_state().items()}
