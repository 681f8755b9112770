"""Plays episodes with trained or random policies: measures their means, or yields states for a renderer."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpu_vecenv.train.config import ResolvedConfig, TrainConfig, resolve, resolve_new
from gpu_vecenv.train.config.checks import COUNT, LONG_COUNT, Check, checked, count, require, require_known
from gpu_vecenv.train.errors import ConfigError, UnfinishedError
from gpu_vecenv.train.policies.function import Function
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_in_errors, load_checkpoint, saved_config
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.run_folder.runs import names_env, runs_nearby
from gpu_vecenv.train.run_folder.source import FORM
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.measure import LONGER, Evaluation, means_of, most_steps, piece_steps, played, step_limit, too_long
from gpu_vecenv.train.runner.opponents import Opponent, cast, first_run
from gpu_vecenv.train.runner.players import Players
from gpu_vecenv.train.runner.record import FILE, require_recordable, write_evaluation
from gpu_vecenv.train.runner.torch_settings import torch_threads
from gpu_vecenv.train.storage.policy_map import role_of
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


class Game(NamedTuple):
    """An env and the policies that play in it."""

    config: ResolvedConfig
    """Options of the env and of all policies."""
    checkpoint: str | Path | None
    """File or folder with the weights of the policies that are not in ``load_policies``; None: they have their first ones."""
    policy_map: dict[str, str]
    """Role to policy name, for roles with another policy than in ``config``."""
    functions: dict[str, Function]
    """Policy name to its function."""

    def players(self, env: GpuVectorEnv, all_loaded: bool, num_steps: int = 1) -> Players:
        """Return the policies, bound to an env; see ``Players.loaded()``."""
        return Players.loaded(env, self.config, self.checkpoint, self.policy_map, all_loaded, num_steps, self.functions)


def game_of(
    target: str | Path | TrainConfig | None,
    policy_map: Mapping[str, str] | None,
    opponents: Mapping[str, Opponent] | None,
    changes: Mapping[str, Any],
) -> Game:
    """Return who plays, by the arguments of ``evaluate()``.

    Raises:
        ConfigError: a change is none of ``OPTIONS``, or is out of range; ``target`` is something else.
        CheckpointError: a checkpoint is unusable.
    """
    require_known("evaluation", changes, OPTIONS)
    checked("policy_map", policy_map, MAPPING)
    checked("opponents", opponents, MAPPING)
    both = sorted({*(policy_map or {})} & {*(opponents or {})})
    require(not both, "opponents", "roles that policy_map does not name", both)
    acting: dict[str, Opponent] = {**(policy_map or {}), **(opponents or {})}
    config, checkpoint = _run_of(target, acting, changes)
    trained = config.policy_map
    if trained is None:  # each role has the policy of its name
        trained = {role_of(key): role_of(key) for key in acting}
    present = cast(config, acting, trained)
    return Game(resolve(present.config), checkpoint, present.policy_map, present.functions)


def _run_of(
    target: str | Path | TrainConfig | None, acting: Mapping[str, Opponent], changes: Mapping[str, Any]
) -> tuple[ResolvedConfig, str | Path | None]:
    """Return resolved options, and ``target`` if it is a checkpoint or a run's folder; None for a config, or without a target."""
    if isinstance(target, TrainConfig):
        return resolve_new(dataclasses.replace(target, **changes)), None
    # A run may be evaluated on another device than it was trained on, and its policies have learned since they were loaded.
    options = {"device": "auto", "load_policies": {}, **changes}
    if target is None:
        source = first_run(acting)
        if source is None:
            raise ConfigError(f"target: expected a run, a TrainConfig, or policies of runs as {FORM}, got neither")
        config = saved_config(source.run, load_checkpoint(source.file))
        return resolve(dataclasses.replace(config, **options, policy_map={}, policies={}, frozen=())), None
    expected = "a checkpoint file, the folder of a run, a TrainConfig or None"
    require(isinstance(target, str | os.PathLike), "target", expected, target)
    if names_env(target):
        instead = f"TrainConfig({os.fspath(target)!r}) plays that env without a run{runs_nearby(Path(target))}"
        raise ConfigError(f"target: expected {expected}, got the id of an env: {instead}")
    config = saved_config(target, load_checkpoint(target))
    return resolve(dataclasses.replace(config, **options)), target


def evaluate(
    target: str | Path | TrainConfig | None,
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
            its ``load_policies``. None: ``policy_map`` and ``opponents`` name all roles, and the env is that of the first run
            among them.
        episodes: number of worlds.
        policy_map: role, or a range of one, to who acts for it, for roles with another policy than in training: ``random``, a
            scripted policy of the env by its name, another policy of the checkpoint, one of ``load_policies``, or a policy of
            another run as ``FOLDER[:POLICY][@best|@newest]``. A folder alone means its policy of that role.
        deterministic: take the likeliest actions instead of draws.
        progress: show the progress on standard error.
        task: text to show before the first progress.
        max_steps: most steps of an episode; longer ones raise an error. None: 10,000, or the env's time limit if it is longer.
        **changes: ``opponents``, as ``policy_map`` for other roles, whose values may also be functions, see ``FunctionPolicy``;
            ``seeds``, the number of times that all worlds are played, with the seeds ``seed``, ``seed + 1`` and so on, 1 by
            default; ``record``, a file ``.npz`` for seeds, actions and returns, which ``gpu_vecenv.verify()`` plays again to the
            same bits on any device; and config fields to change: ``seed``, ``device``, ``threads``, ``env_kwargs``, ``env_id``,
            ``network``, ``policies``, or ``load_policies``, whose files replace policies of the checkpoint. Others would change
            nothing and are refused. The default of ``device`` is ``auto``, not the device of the run; the default of ``seed`` is
            derived from that of the run, so that evaluations do not repeat the worlds of the training.

    Raises:
        CheckpointError: a checkpoint is unusable.
        ConfigError: an option is out of range, or changes nothing in an evaluation; ``record`` of an env with wrappers.
        RecordingError: a parameter of the env that ``record`` cannot hold.
        OSError: ``record`` cannot be written.
        PolicyMapError: the roles do not fit.
        UnfinishedError: an episode did not end within ``max_steps``. The message holds what was seen so far.
        DeviceError, CompileError, OutOfMemoryError: the env cannot be made.
    """
    opponents, seeds = changes.pop("opponents", None), checked("seeds", changes.pop("seeds", 1), COUNT)
    record = checked("record", changes.pop("record", None), FILE)
    game = game_of(target, policy_map, opponents, changes)
    config, checkpoint = game.config, game.checkpoint
    episodes = checked("episodes", episodes, count(MAX_WORLDS))
    max_steps = checked("max_steps", max_steps, LONG_COUNT.or_none())
    if task and not progress:
        raise ConfigError(f"task: expected it with progress=True, which shows it, got {task!r} without")
    with contextlib.ExitStack() as resources:
        display = resources.enter_context(Progress(sys.stderr, not progress, task))
        with checkpoint_in_errors(checkpoint, changes):
            env = resources.enter_context(contextlib.closing(make_env(config, episodes)))
        if record is not None:
            require_recordable(env)
        resources.enter_context(torch_threads(config.threads))
        seed = config.seed if "seed" in changes else evaluation_seed(config.seed)
        players = game.players(env, "load_policies" in changes, piece_steps(env))
        tallies = played(players, seed, deterministic, display, max_steps, seeds, record is not None)
        if record is not None:
            write_evaluation(record, config.env_id, env, tallies, seed)
        return means_of(tallies)


def play(
    target: str | Path | TrainConfig | None,
    episodes: int = 1,
    policy_map: Mapping[str, str] | None = None,
    deterministic: bool = False,
    on_step: Callable[[float], object] = lambda played: None,
    max_steps: int | None = None,
    opponents: Mapping[str, Opponent] | None = None,
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
        opponents: see ``evaluate()``.
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
    game = game_of(target, policy_map, opponents, changes)
    config, checkpoint = game.config, game.checkpoint
    episodes = checked("episodes", episodes, LONG_COUNT)
    max_steps = checked("max_steps", max_steps, LONG_COUNT.or_none())
    # Autoreset would replace the last state of an episode.
    with checkpoint_in_errors(checkpoint, changes):
        new_env = make_env(config, 1, "disabled")
    with contextlib.closing(new_env) as env:
        with torch_threads(config.threads):
            players = game.players(env, "load_policies" in changes)
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
