"""Plays episodes with trained or random policies: measures their means, or yields states for a renderer."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gpu_vecenv.train.config import ResolvedConfig, TrainConfig, resolve
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.fused.rollout import whole_rollout
from gpu_vecenv.train.policies.contract import Actor
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_in_errors, load_checkpoint, saved_config
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.runner.build import load_policy, make_env
from gpu_vecenv.train.runner.collector import Collector
from gpu_vecenv.train.runner.parts import make_policies, rows_of_policies
from gpu_vecenv.train.runner.torch_threads import torch_threads
from gpu_vecenv.train.runner.wrappers import evaluate_as_saved
from gpu_vecenv.train.storage.policy_map import is_random, with_changes
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.vector.views import MAX_WORLDS

if TYPE_CHECKING:
    from gpu_vecenv.vector.vector_env import GpuVectorEnv


@dataclass(frozen=True)
class Evaluation:
    """Means over one episode of each world."""

    episodes: int
    """Number of worlds, each played for one episode."""
    mean_return: dict[str, float]
    """Role to the undiscounted return of an agent."""
    mean_survival: dict[str, float]
    """Role to the steps that an agent was alive."""
    mean_exits: dict[str, float]
    """Role to the agents that left before the end of an episode; for Tag's runners these are the tags."""
    mean_length: float
    """Steps of an episode."""


PIECE_STEPS, PIECE_TRANSITIONS = 16, 1 << 16
"""Most steps and most transitions of a piece of an evaluation. After each piece the host reads whether episodes still run. A
piece has at least one step."""


class Players:
    """An actor for every row of an env, and the results of a piece of their episodes."""

    def __init__(
        self, env: GpuVectorEnv, policy_map: Mapping[str, str] | None, actors: Mapping[str, Actor], num_steps: int = 1
    ):
        """Bind the env.

        Args:
            env: vector env, see ``make_env()``.
            policy_map: role to policy name; None gives each role the policy of its name.
            actors: what acts for each policy, by name, on the env's device.
            num_steps: steps of a piece.

        Raises:
            PolicyMapError: a role is unknown or has no policy.
        """
        rollout = Rollout.allocate(env, num_steps, with_final_obs=False)
        rows = rows_of_policies(env, rollout, policy_map)
        acting = {name: actors[name] for name in rows}
        self.collector = Collector(env, rollout, acting, rows, whole_rollout(env, rollout, acting))

    @classmethod
    def loaded(
        cls,
        env: GpuVectorEnv,
        config: ResolvedConfig,
        checkpoint: str | Path | None,
        policy_map: Mapping[str, str] | None,
        num_steps: int = 1,
    ) -> Players:
        """Build policies for an env, with the weights of a checkpoint.

        Args:
            env: vector env, see ``make_env()``.
            config: resolved options.
            checkpoint: file that holds every policy but ``random``; None keeps the initial weights.
            policy_map: role to policy name, for roles with another policy than in ``config``.
            num_steps: steps of a piece.

        Raises:
            CheckpointError: the file does not fit.
            PolicyMapError: a role is unknown or has no policy.
        """
        trained = {role: role for role in env.role_rows} if config.policy_map is None else config.policy_map
        rollout = Rollout.allocate(env, 1, with_final_obs=False)
        if checkpoint is not None:
            with checkpoint_in_errors(checkpoint):  # an error in this block is caused by the checkpoint
                rows_of_policies(env, rollout, trained)
        present = with_changes(trained, policy_map or {})
        rows = rows_of_policies(env, rollout, present)
        with checkpoint_in_errors(checkpoint):
            policies = make_policies(rows, config, torch.device(env.device))
        evaluate_as_saved(env, checkpoint)
        if checkpoint is not None:
            for name in policies:
                if not is_random(name):
                    load_policy(policies, name, checkpoint)
        return cls(env, present, policies, num_steps)

    def step(self, deterministic: bool) -> Rollout:
        """Advance the env by the steps of a piece; return the results, which the next call overwrites."""
        self.collector.env.rewind()
        self.collector.collect(deterministic)
        return self.collector.rollout


def evaluation_seed(seed: int) -> int:
    """Return a seed for evaluations, so that they do not repeat the worlds of the training that has this seed."""
    return int.from_bytes(hashlib.sha256(f"evaluation/{seed}".encode()).digest()[:8], "little")


def _setup(target: str | Path | TrainConfig, changes: Mapping[str, Any]) -> tuple[ResolvedConfig, str | Path | None]:
    """Return resolved options, and ``target`` if it is a checkpoint or a run's folder; None for a config."""
    if isinstance(target, TrainConfig):
        return resolve(dataclasses.replace(target, **changes)), None
    config = saved_config(target, load_checkpoint(target))
    # A run may be evaluated on another device than it was trained on.
    return resolve(dataclasses.replace(config, **{"device": "auto", **changes})), target


def evaluate(
    target: str | Path | TrainConfig,
    episodes: int = 64,
    policy_map: Mapping[str, str] | None = None,
    deterministic: bool = False,
    progress: bool = False,
    task: str = "",
    **changes: Any,
) -> Evaluation:
    """Play one episode in each world and return the means.

    Args:
        target: a checkpoint file, a run's folder, or a config. With a config, policies have their initial weights, which is
            useful for ``random`` policies.
        episodes: number of worlds.
        policy_map: role to policy name, for roles with another policy than in training: ``random``, or another
            policy of the checkpoint.
        deterministic: take the likeliest actions instead of draws.
        progress: show the progress on standard error.
        task: text to show before the first progress.
        **changes: config fields to change, such as ``seed``, ``device`` or ``threads``. The default of ``device`` is ``auto``,
            not the device of the run; the default of ``seed`` is derived from that of the run, so that evaluations do not repeat
            the worlds of the training.

    Raises:
        CheckpointError: the checkpoint is unusable.
        ConfigError: an option or ``episodes`` is out of range.
        PolicyMapError: the roles do not fit.
        DeviceError, CompileError, OutOfMemoryError: the env cannot be made.
    """
    config, checkpoint = _setup(target, changes)
    if not 1 <= episodes <= MAX_WORLDS:
        raise ConfigError(f"episodes: expected an integer from 1 to {MAX_WORLDS}, got {episodes}")
    with contextlib.ExitStack() as resources:
        display = resources.enter_context(Progress(sys.stderr, not progress, task))
        with checkpoint_in_errors(checkpoint, changes):
            env = resources.enter_context(contextlib.closing(make_env(config, episodes)))
        resources.enter_context(torch_threads(config.threads))
        seed = config.seed if "seed" in changes else evaluation_seed(config.seed)
        players = Players.loaded(env, config, checkpoint, policy_map, piece_steps(env))
        return measure(players, seed, deterministic, display)


def measure(players: Players, seed: int, deterministic: bool, display: Progress | None = None) -> Evaluation:
    """Play one episode of every world.

    Args:
        players: env and policies.
        seed: seed of the worlds.
        deterministic: take the likeliest actions instead of draws.
        display: progress to show.
    """
    env = players.collector.env
    episodes = env.num_worlds
    players.collector.reset(seed)
    num_rows = players.collector.rollout.num_rows
    # Only the first episode of a world counts. Otherwise worlds with short episodes would count more often.
    running = torch.ones(num_rows, dtype=torch.bool, device=env.device)
    alive = running.clone()
    total = torch.zeros(num_rows, dtype=torch.float64, device=env.device)
    survival, length = torch.zeros_like(total), torch.zeros_like(total)
    rows, steps, limit = num_rows, 0, step_limit(env)
    while rows:
        piece = players.step(deterministic)
        ended = piece.terminated | piece.truncated
        counts = running & (ended.cumsum(0, dtype=torch.int32) - ended.int() == 0)  # (T, R), steps of the first episodes
        total += torch.where(counts, piece.reward, 0.0).sum(0, dtype=torch.float64)
        survival += (counts & torch.cat((alive.unsqueeze(0), piece.agent_alive[:-1]))).sum(0)
        taken = counts.sum(0)
        length += taken
        last = piece.agent_alive.gather(0, (taken - 1).clamp(min=0).unsqueeze(0)).squeeze(0)
        alive = torch.where(running, last, alive)
        running &= ~ended.any(0)
        rows = int(running.sum())  # the one host sync of a piece
        steps += episodes * piece.num_steps
        over = episodes - rows * episodes // num_rows
        fraction = min(1.0, max(over / episodes, steps / episodes / limit))  # the time limit bounds the number of steps
        text = f"{over:,} of {episodes:,} episodes  {steps:,} steps"
        if display is not None:
            display.show(fraction, f"{text}  {display.rate(steps):,.0f} steps/s")
    roles = env.role_rows
    return Evaluation(
        episodes=episodes,
        mean_return={role: total[rows].mean().item() for role, rows in roles.items()},
        mean_survival={role: survival[rows].mean().item() for role, rows in roles.items()},
        mean_exits={role: (~alive[rows]).sum().item() / episodes for role, rows in roles.items()},
        mean_length=length.mean().item(),
    )


def piece_steps(env: GpuVectorEnv) -> int:
    """Return the steps of a piece of an evaluation: fewer if the env has many rows, because a piece stores all of them."""
    return max(1, min(PIECE_STEPS, PIECE_TRANSITIONS // (env.num_worlds * env.num_agents)))


def step_limit(env: GpuVectorEnv) -> float:
    """Return the time limit of an episode in steps; infinity if there is none."""
    params = getattr(env, "params", {})
    return float(params.get("max_episode_steps") or params.get("episode_length") or math.inf)


def play(
    target: str | Path | TrainConfig,
    episodes: int = 1,
    policy_map: Mapping[str, str] | None = None,
    deterministic: bool = False,
    on_step: Callable[[float], object] = lambda played: None,
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
        **changes: config fields to change.

    Yields:
        ``get_state()`` of the world, as NumPy arrays without the leading axis.

    Raises:
        CheckpointError: the checkpoint is unusable.
        ConfigError: an option is out of range.
        PolicyMapError: the roles do not fit.
        DeviceError, CompileError, OutOfMemoryError: the env cannot be made.
    """
    config, checkpoint = _setup(target, changes)
    # Autoreset would replace the last state of an episode.
    with checkpoint_in_errors(checkpoint, changes):
        new_env = make_env(config, 1, "disabled")
    with contextlib.closing(new_env) as env:
        with torch_threads(config.threads):
            players = Players.loaded(env, config, checkpoint, policy_map)
            seed = config.seed if "seed" in changes else evaluation_seed(config.seed)
        for episode in range(episodes):
            players.collector.reset((seed + episode) % 2**64)
            yield _world_state(env)
            ended, steps = False, 0
            while not ended:
                with torch_threads(config.threads):  # code that runs between states keeps the process's number of threads
                    step = players.step(deterministic)
                ended = bool((step.terminated | step.truncated).any())
                steps += 1
                on_step(episode + (1.0 if ended else steps / step_limit(env)))
                yield _world_state(env)


def _world_state(env: GpuVectorEnv) -> dict[str, np.ndarray]:
    return {name: x[0].cpu().numpy() for name, x in env.get_state().items()}
