"""Runs of an env: its results step by step, for comparison with another run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpu_vecenv.testing.difference import Arrays, flat
from gpu_vecenv.testing.subject import MakeBackend, Subject, action_table
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.outputs.tree import tree_map

OF_ENDS = ("final_obs", "final_action_mask", "final_action_effects", "episode")
"""Entries of ``info`` that hold values of worlds whose episode ended, and undefined ones of other worlds."""


def at(tree: Any, index: Any) -> Any:
    """Return the entries of an index or a slice of the leading axis of all arrays of a tree."""
    return tree_map(lambda array: array[index], tree)


def steps_of(env: GpuVectorEnv[np.ndarray], actions: Any, at_once: int = 0) -> Iterator[tuple[Any, ...]]:
    """Step an env and yield what each step returns.

    Args:
        env: an env that was reset.
        actions: actions of all steps, with the leading axis steps.
        at_once: steps of a launch; 0 for single steps.
    """
    first = actions
    while isinstance(first, dict):
        first = next(iter(first.values()))
    steps = len(first)
    for start in range(0, steps, at_once or 1):
        if at_once:
            rollout = env.rollout(at(actions, slice(start, start + at_once)))
            yield from (tuple(at(part, t) for part in rollout) for t in range(len(rollout[1])))
        else:
            yield env.step(at(actions, start))


def arrays_of(out: tuple[Any, ...]) -> Arrays:
    """Return the results of a step by name. Values of worlds without an end of an episode are 0."""
    obs, reward, terminated, truncated, info = out
    info = dict(info)
    ended = info.get("_final_obs", info.get("_episode"))
    for name in OF_ENDS:
        if name in info:
            info[name] = tree_map(lambda array: _where(ended, array), info[name])
    arrays = flat(obs, "obs") | {"reward": reward, "terminated": terminated, "truncated": truncated}
    for name, value in info.items():
        arrays |= flat(value, name)
    return {name: np.array(array) for name, array in arrays.items()}


def _where(ended: Any, array: np.ndarray) -> np.ndarray:
    return np.where(np.reshape(ended, (-1,) + (1,) * (array.ndim - 1)), array, np.zeros((), array.dtype))


def state_of(env: GpuVectorEnv[np.ndarray]) -> Arrays:
    """Return the state fields as ``state.NAME``."""
    return {f"state.{name}": array for name, array in env.get_state().items()}


def run(
    subject: Subject, backend: MakeBackend | None = None, at_once: int = 0, num_steps: int | None = None, **options: Any
) -> list[Arrays]:
    """Return the results of a reset and of random steps, the last of them with the state.

    Args:
        subject: the env.
        backend: makes the back end, see ``Subject.make()``.
        at_once: steps of a launch; 0 for single steps.
        num_steps: steps; None for those of the subject.
        options: keywords of ``GpuVectorEnv``.
    """
    env = subject.make(backend, **options)
    try:
        return run_of(env, subject.seed, action_table(env, num_steps or subject.num_steps, subject.seed + 1), at_once)
    finally:
        env.close()


def run_of(env: Any, seed: int, actions: Any, at_once: int = 0) -> list[Arrays]:
    """Return the results of a reset and of steps, the last of them with the state; ``env`` has the calls of an env."""
    obs, info = env.reset(seed=seed)
    results = [{name: np.array(array) for name, array in (flat(obs, "obs") | flat(info, "info")).items()}]
    results += [arrays_of(out) for out in steps_of(env, actions, at_once)]
    results[-1] |= state_of(env)
    return results
