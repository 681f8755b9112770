"""Files of evaluations, which ``gpu_vecenv.verify()`` plays again: actions of each world's first episode, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from gpu_vecenv.spec.validation import Array
from gpu_vecenv.train.config.checks import Check
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.runner.measure import Tally
from gpu_vecenv.train.storage.wrapped_env import as_wrapped
from gpu_vecenv.vector.env.recording import Part, Recording, device_name
from gpu_vecenv.vector.env.stepping import by_world

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

FILE = Check(lambda value: isinstance(value, str | Path) and Path(value).suffix == ".npz", "a file that ends with .npz").or_none()
"""Values of ``record``."""


def require_recordable(env: GpuVectorEnv) -> None:
    """Raise ConfigError for an env inside wrappers, whose actions and rewards are not those of the file."""
    if wrapped := as_wrapped(env):
        names = ", ".join(wrapped.wrappers)
        raise ConfigError(f"record: expected an env without wrappers, whose steps a file can hold, got {names}")


def write_evaluation(path: str | Path, env_id: str, env: GpuVectorEnv, tallies: Sequence[Tally], seed: int) -> None:
    """Write the episodes of an evaluation.

    Args:
        path: the file, see docs/recordings.md.
        env_id: id of the env.
        env: the env.
        tallies: one for each seed, which kept actions.
        seed: seed of the first one.

    Raises:
        RecordingError: a parameter of the env that the file cannot hold.
        OSError: the file cannot be written.
    """
    parts = [_part(env, tally, (seed + number) % 2**64) for number, tally in enumerate(tallies)]
    recording = Recording.of_layout(
        "evaluation", env_id, env.layout, tuple(parts), num_worlds=env.num_worlds, device=device_name(env.device)
    )
    recording.write(path)


def _part(env: GpuVectorEnv, tally: Tally, seed: int) -> Part:
    def worlds(rows: Tensor) -> np.ndarray:
        values: np.ndarray = by_world(rows.cpu().numpy(), env.role_counts, env.num_worlds)
        return values

    length = worlds(tally.length)[:, 0].astype(np.int32)
    results: dict[str, np.ndarray] = {
        "return": worlds(tally.total),
        "steps_alive": worlds(tally.survival).astype(np.int32),
        "alive": worlds(tally.alive),
        "length": length,
        "metrics": tally.recorded.cpu().numpy(),
    }
    counts = np.arange(int(length.max()))[:, None] < length  # (T, N), steps of the first episodes
    pieces = tally.actions or []
    actions: dict[str, np.ndarray] = {}
    for number, group in enumerate(env.layout.groups):
        rows = np.concatenate([piece[number].numpy() for piece in pieces])[: len(counts)]
        actions[group.role if env.layout.by_role else ""] = actions_by_world(env, number, rows)
    for values in actions.values():
        values[~counts] = 0  # no result depends on them, and zeros take no room in the file
    return Part(actions, results, seed=seed)


def actions_by_world(env: GpuVectorEnv, number: int, rows: Array) -> np.ndarray:
    """Return actions of a group's rows, ``(T, n[, k])``, by world, ``(T, N, agents[, k])``, in the group's dtype of actions."""
    group = env.layout.groups[number]
    values = np.asarray(rows).astype(group.action_dtype)
    if env.layout.by_role:
        return values.reshape(len(values), env.num_worlds, group.count, *values.shape[2:])
    moved: np.ndarray = by_world(np.moveaxis(values, 1, -1), env.role_counts, env.num_worlds)
    return np.ascontiguousarray(np.moveaxis(moved, (-2, -1), (1, 2)))
