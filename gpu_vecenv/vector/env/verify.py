"""``verify()``: steps a recorded evaluation again, and compares every return with the file to the bit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from gpu_vecenv.errors import DifferenceError, RecordingError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.vector.env.recording import Part, Recording, read_recording
from gpu_vecenv.vector.env.registered import id_without_import
from gpu_vecenv.vector.env.stepping import OPTIONS, started, steps
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

RESULTS = {"return": "float64", "steps_alive": "int32", "alive": "bool", "length": "int32", "metrics": "float32"}
"""Results of an evaluation, and their dtypes."""


@dataclass(frozen=True)
class Verified:
    """What ``verify()`` confirmed."""

    recording: Recording
    """The file."""
    episodes: int
    """Episodes that were played again."""
    returns: int
    """Returns of agents that are equal to the bit."""
    mean_return: Mapping[str, float]
    """Role to the mean return of its agents that took part; NaN if none did."""


def verify(
    file: str | Path,
    device: str = "cpu",
    env_spec: EnvSpec | None = None,
    progress: Callable[[float], object] = lambda fraction: None,
) -> Verified:
    """Play a recorded evaluation again, and confirm every return to the bit.

    Args:
        file: what ``evaluate(..., record=file)`` or ``gpu-vecenv eval --record`` wrote, on any device.
        device: device of the steps: ``"cpu"``, ``"cuda"``, ``"python"`` or ``"auto"``.
        env_spec: the env; None takes the registered env that the file names. No module is imported for it.
        progress: called with the part of the file that was played, 0 to 1.

    Raises:
        RecordingError: the file cannot be read, is no evaluation, or is of an env that has changed.
        DifferenceError: a return, a length or a metric differs; the message names the first one and both values.
        CompileError, DeviceError, OutOfMemoryError: the env cannot be made.
    """
    recording = read_recording(file)
    if recording.kind != "evaluation":
        raise RecordingError(f"{file}: expected a recorded evaluation, got a world: gpu-vecenv replay steps it")
    env = recorded_env(recording, device, env_spec)
    try:
        sums, counts = dict.fromkeys(env.role_counts, 0.0), dict.fromkeys(env.role_counts, 0)
        of_a_part = 1 / len(recording.parts)
        for number, part in enumerate(recording.parts):
            played = _played(env, part, lambda fraction, before=number: progress((before + fraction) * of_a_part))  # type: ignore[misc]
            _compare(file, env, part, played)
            for role, agents in agent_slices(env).items():
                took_part = played["steps_alive"][:, agents] > 0
                sums[role] += float(played["return"][:, agents][took_part].sum())
                counts[role] += int(took_part.sum())
        episodes = len(recording.parts) * env.num_worlds
        means = {role: sums[role] / counts[role] if counts[role] else float("nan") for role in sums}
        return Verified(recording, episodes, episodes * env.num_agents, means)
    finally:
        env.close()


def recorded_env(
    recording: Recording, device: str, env_spec: EnvSpec | None = None, may_change: Collection[str] = ()
) -> GpuVectorEnv:
    """Return the env of a recording, with ``stepping.OPTIONS``.

    Raises:
        RecordingError: no such env is registered here, or it has changed in a part that may not.
    """
    options = {
        **OPTIONS,
        "autoreset_mode": recording.autoreset_mode,
        "num_worlds": recording.num_worlds,
        "device": device,
        **recording.params,
    }
    if env_spec is not None:
        env = GpuVectorEnv(env_spec, **options)
    else:
        vector_env = gymnasium.make_vec(id_without_import(recording.env_id), **options).unwrapped
        if not isinstance(vector_env, GpuVectorEnv):
            raise RecordingError(f"expected a GpuVectorEnv, got {type(vector_env).__name__} by the id {recording.env_id!r}")
        env = vector_env
    try:
        recording.require_version(env.layout, may_change)
    except RecordingError:
        env.close()
        raise
    return env


def agent_slices(env: Any) -> dict[str, slice]:
    """Return the numbers of the agents of each role in a world."""
    slices, first = {}, 0
    for role, count in env.role_counts.items():
        slices[role] = slice(first, first + count)
        first += count
    return slices


def _played(env: GpuVectorEnv, part: Part, progress: Callable[[float], object]) -> dict[str, np.ndarray]:
    """Play the first episode of each world, and return ``RESULTS``.

    A return is the sum of an agent's rewards in float64, one step after the other, over the steps before which it was in the
    game.
    """
    alive = started(env, part)
    running, num_steps = np.ones(env.num_worlds, bool), len(next(iter(part.actions.values())))
    total, taken, last = np.zeros(alive.shape), np.zeros(alive.shape, np.int32), alive
    length = np.zeros(env.num_worlds, np.int32)
    metrics = np.full((len(env.env_spec.metrics), env.num_worlds), np.nan, np.float32)
    for number, step in enumerate(steps(env, part.actions)):
        counts = running[:, None] & alive
        total += np.where(counts, step.reward, np.float32(0))
        taken += counts
        length += running
        last = np.where(running[:, None], step.alive, last)
        metrics = np.where(running & step.ended, step.metrics, metrics)
        running = running & ~step.ended
        alive = step.alive
        progress((number + 1) / num_steps)
    return {"return": total, "steps_alive": taken, "alive": last, "length": length, "metrics": metrics}


def _compare(file: str | Path, env: GpuVectorEnv, part: Part, played: Mapping[str, np.ndarray]) -> None:
    """Raise DifferenceError for the first number that is not the recorded one, bit by bit; NaN equals NaN."""
    for name, dtype in RESULTS.items():
        recorded, present = part.results.get(name), played[name]
        if recorded is None or recorded.dtype != dtype or recorded.shape != present.shape:
            got = "none" if recorded is None else f"{recorded.dtype} of the shape {recorded.shape}"
            raise RecordingError(f"{file}: expected {name} as {dtype} of the shape {present.shape}, got {got}")
        place = first_difference(recorded, present)
        if place is None:
            continue
        where = f"seed {part.seed}, world {place[-1] if name == 'metrics' else place[0]}"
        if name == "metrics":
            where += f", metric {env.env_spec.metrics[place[0]].name}"
        elif len(place) > 1:
            where += f", {agent_name(env, place[1])}"
        what = {"return": "return", "steps_alive": "steps in the game", "alive": "mark of the game at the end", "length": "steps"}
        raise DifferenceError(
            f"{file}: {where}: expected the recorded {what.get(name, 'value')} {recorded[place].item()!r}, "
            f"got {present[place].item()!r}"
        )


def first_difference(expected: np.ndarray, got: np.ndarray) -> tuple[int, ...] | None:
    """Return the first place at which arrays of one shape and dtype have other bits; None without one. NaN equals NaN."""
    if expected.dtype.kind == "f":
        bits = np.dtype(f"u{expected.dtype.itemsize}")
        different = np.ascontiguousarray(expected).view(bits) != np.ascontiguousarray(got).view(bits)
        different &= ~(np.isnan(expected) & np.isnan(got))
    else:
        different = expected != got
    return tuple(np.argwhere(different)[0].tolist()) if different.any() else None


def agent_name(env: Any, agent: int) -> str:
    """Return an agent's number and role, such as ``agent 5 (runner 1)``."""
    role, agents = next((role, agents) for role, agents in agent_slices(env).items() if agent < agents.stop)
    return f"agent {agent} ({role} {agent - agents.start})"
