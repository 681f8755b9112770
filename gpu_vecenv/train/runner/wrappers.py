"""Wrappers of a user's env that the trainer can train through, and their statistics in evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv, VectorWrapper

from gpu_vecenv.train.errors import CheckpointError, ConfigError
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_in_errors, checkpoint_path, load_checkpoint
from gpu_vecenv.train.storage.wrapped_env import WrappedEnv, as_wrapped
from gpu_vecenv.vector.wrappers.normalize import NormalizeObservation, NormalizeReward
from gpu_vecenv.vector.wrappers.role_rows import RoleRows
from gpu_vecenv.vector.wrappers.stats import EpisodeStatistics
from gpu_vecenv.vector.wrappers.transform import ClipAction, ClipReward, TransformObservation, TransformReward

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

SAME_NAMES = (ClipAction, ClipReward, NormalizeObservation, NormalizeReward, TransformObservation, TransformReward)
"""Wrappers of this package that replace wrappers of Gymnasium with the same names."""

TRAINED = (*SAME_NAMES, EpisodeStatistics)
"""Classes of wrappers that the trainer trains through. A subclass is another class, because it may have a state of its own, which
a checkpoint would lack."""


def through_wrappers(env: VectorEnv, env_id: str) -> GpuVectorEnv:
    """Return an env that a run steps: the env alone, or in its place a ``WrappedEnv`` that steps it through its wrappers.

    Args:
        env: what the id makes.
        env_id: the id, for errors.

    Raises:
        ConfigError: a wrapper that the trainer cannot train through; the text names it and says what to do.
    """
    wrappers: list[VectorEnv] = []
    inner = env
    while isinstance(inner, VectorWrapper):
        wrappers.append(inner)
        inner = inner.env
    for each in (*wrappers, inner):
        _require_trainable(each, env_id)
    if not wrappers:
        return cast("GpuVectorEnv", env)
    bare = cast("GpuVectorEnv", inner)
    if bare.layout.by_role:
        raise ConfigError(
            f"{env_id}: expected no wrappers around an env whose roles have spaces of their own, got {_name(wrappers[0])}; "
            "register the env alone: normalize_observations and normalize_rewards of PPOConfig do the same for each policy"
        )
    space = env.single_observation_space
    if not isinstance(space, Box) or space.dtype != np.float32:
        raise ConfigError(f"{env_id}: expected wrapped observations in a Box of float32, got {space} of {_name(wrappers[0])}")
    return cast("GpuVectorEnv", WrappedEnv(cast(VectorWrapper, env)))


def _require_trainable(env: VectorEnv, env_id: str) -> None:
    """Raise ConfigError for an env or a wrapper that the trainer cannot step."""
    kind = type(env)
    if isinstance(env, RoleRows):
        raise ConfigError(
            f"{env_id}: expected an env with all its roles, got RoleRows; register the env alone, and choose a policy for each "
            "role with policy_map: 'random' acts at random, and policies in frozen do not learn"
        )
    if not isinstance(env, VectorWrapper) or kind in TRAINED:
        return
    upstream = kind.__name__ if kind.__module__.startswith("gymnasium.") else ""
    if upstream == "RecordEpisodeStatistics":
        advice = "leave it out: the trainer records returns itself"
    elif upstream in [each.__name__ for each in SAME_NAMES]:
        advice = f"use gpu_vecenv.{upstream}"
    else:
        advice = (
            "its state would be missing in checkpoints; give a function to gpu_vecenv.TransformObservation or TransformReward, "
            "or put the rule into the env"
        )
    raise ConfigError(f"{env_id}: expected wrappers of gpu_vecenv around the env, got {_name(env)}; {advice}")


def _name(env: VectorEnv) -> str:
    """Return the class of a wrapper with its module."""
    return f"{type(env).__module__}.{type(env).__qualname__}"


def evaluate_as_in_training(env: GpuVectorEnv, training: GpuVectorEnv) -> None:
    """Give the wrappers of an env for evaluation the present statistics of a training, which they leave as they are."""
    evaluated, trained = as_wrapped(env), as_wrapped(training)
    if evaluated and trained:
        evaluated.evaluate_with(trained.wrapper_states())


def evaluate_as_saved(env: GpuVectorEnv, checkpoint: str | Path | None) -> None:
    """Give the wrappers of an env for evaluation the statistics of a checkpoint, which they leave as they are.

    Args:
        env: the env.
        checkpoint: the file or the folder of a run; None keeps the statistics of new wrappers, mean 0 and variance 1.

    Raises:
        CheckpointError: the run had other wrappers.
    """
    wrapped, saved = as_wrapped(env), None
    if checkpoint is not None:
        saved = load_checkpoint(checkpoint)["collector"].get("wrappers", {})
        present = list(wrapped.wrappers) if wrapped else []
        if list(saved) != present:
            raise CheckpointError(
                f"{checkpoint_path(checkpoint)}: expected an env with the wrappers of the run, {list(saved) or 'none'}, got "
                f"{present or 'none'}; the innermost wrapper is first"
            )
    if wrapped:
        with checkpoint_in_errors(checkpoint):
            wrapped.evaluate_with(saved)
