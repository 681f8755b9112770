"""Files of one world before a step that went wrong, which ``gpu-vecenv replay`` steps again to the same bits."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from gpu_vecenv.errors import HookFault
from gpu_vecenv.vector.env.recording import Part, Recording, device_name
from gpu_vecenv.vector.env.stepping import OPTIONS, StepResult, named, started, steps
from gpu_vecenv.vector.inputs.autoreset import spelled


class Place(NamedTuple):
    """A number that is not finite."""

    step: int
    """Step of a rollout in which the env wrote it, from 0; -1 before the first one."""
    world: int
    """Number of the world in the env."""
    text: str
    """Name of the number and its value, such as ``reward of agent 5 (runner 1) is nan``."""


def describe_place(place: Place, state: Mapping[str, np.ndarray]) -> str:
    """Return the text of a place with the step of its episode.

    Args:
        place: the place.
        state: state fields of all worlds before the first step.
    """
    world, key = place.world, {name: int(state[name][place.world]) for name in ("t", "seed", "world_id", "episode")}
    random_key = f"seed {key['seed']}, id {key['world_id']}, episode {key['episode']}"
    when = f"{place.step + 1} steps after step {key['t']}" if place.step else f"in step {key['t'] + 1}"
    return f"world {world} ({random_key}), {'at its start' if place.step < 0 else when}: {place.text}"


def first_nonfinite(arrays: Mapping[str, np.ndarray], env: Any) -> Place | None:
    """Return the first number that is not finite, in the order of steps.

    Args:
        arrays: float arrays ``(T, ...)`` by their names in ``Results.shapes``.
        env: the ``GpuVectorEnv`` that wrote them.
    """
    places = []
    for name, array in arrays.items():
        bad = ~np.isfinite(array)
        if bad.any():
            index = tuple(np.argwhere(bad)[0].tolist())
            places.append((index[0], name, index[1:], array[index]))
    if not places:
        return None
    step, name, index, value = min(places, key=lambda place: place[0])
    world, who, rest = _owner(name, index, env)
    what = "reward" if name.endswith("reward") else "observation"
    entry = f"[{', '.join(map(str, rest))}]" if rest else ""
    return Place(step, world, f"{'final ' if 'final_' in name else ''}{what}{entry} of {who} is {value}")


def _owner(name: str, index: tuple[int, ...], env: Any) -> tuple[int, str, tuple[int, ...]]:
    """Return the world of a place in an array, the agent in words, and the place in the agent's row."""
    view, before = env.worlds.view, dict[str, int]()
    for role in env.role_counts:
        before[role] = sum(env.role_counts[other] for other in before)
        of_role = name.startswith(f"{role}_") and env.layout.by_role
        if "shared_obs" in name and (of_role or not env.layout.by_role):
            return index[0], f"all agents of {role}", index[1:]
        if of_role:
            return index[0], f"agent {before[role] + index[1]} ({role} {index[1]})", index[2:]
    if env.num_agents == 1:
        return index[0], "the agent", index[1:]
    if view.flat:
        role, rows = next((role, rows) for role, rows in env.role_rows.items() if rows.start <= index[0] < rows.stop)
        world, number = divmod(index[0] - rows.start, env.role_counts[role])
        return world, f"agent {before[role] + number} ({role} {number})", index[1:]
    role = next(role for role in reversed(before) if before[role] <= index[1] and env.role_counts[role])
    return index[0], f"agent {index[1]} ({role} {index[1] - before[role]})", index[2:]


def write_world(
    env: Any, world: int, state: Mapping[str, np.ndarray], actions: Mapping[str, np.ndarray], note: str, path: Path | None = None
) -> tuple[Path, Place | HookFault | None]:
    """Write a world before some steps, after these steps were made again by a new env of this world alone on the same device.

    Args:
        env: the ``GpuVectorEnv``.
        world: number of the world.
        state: state fields of all worlds before the first step.
        actions: actions of all worlds, as in ``Part``.
        note: what went wrong.
        path: the file; None for one in the folder of temporary files.

    Returns:
        The file, and what went wrong in the steps of the new env; None if nothing did.

    Raises:
        RecordingError: a parameter of the env that the file cannot hold.
        OSError: the file cannot be written.
    """
    part = Part({role: values[:, world : world + 1] for role, values in actions.items()}, {},
                state={name: values[world : world + 1] for name, values in state.items()})  # fmt: skip
    with _single_world(env, world) as alone:
        results, wrong = made_again(alone, part)
        recording = Recording.of_layout(
            "world", _id_of(env), alone.layout, (Part(part.actions, results, state=part.state),), num_worlds=1,
            device=device_name(env.device), autoreset_mode=str(spelled(env.autoreset_mode)), note=note,
        )  # fmt: skip
    if path is None:
        handle, name = tempfile.mkstemp(prefix=f"{env.env_spec.kernel.stem}-world-{world}-", suffix=".npz")
        os.close(handle)
        path = Path(name)
    return recording.write(path), wrong


def replay_command(env: Any, file: Path, module: str = "") -> str:
    """Return the command that makes the steps of a file again.

    Args:
        env: the ``GpuVectorEnv`` of the file.
        file: the file.
        module: module that registers the env; that of the registered entry point by default, if the entry is text.
    """
    registered = gymnasium.registry.get(_id_of(env))
    entry = None if registered is None else registered.vector_entry_point
    module = module or (entry.partition(":")[0] if isinstance(entry, str) else "")
    outside = module and module.partition(".")[0] != __name__.partition(".")[0]
    return f"gpu-vecenv replay {file}{f' --modules {module}' if outside else ''}"


def made_again(alone: Any, part: Part) -> tuple[dict[str, np.ndarray], Place | HookFault | None]:
    """Make the steps of a part, and return their results for the file, and the first thing that went wrong.

    Returns:
        ``reward`` float32 (T, 1, A), the outputs of the last step by name, and the state after it as ``state/NAME``; no results
        if a hook failed.
    """
    wrong: Place | HookFault | None = None
    try:
        started(alone, part)
        rewards, outputs = [], dict(named("obs", alone.observe()))
        for number, step in enumerate(steps(alone, part.actions)):
            rewards.append(step.reward)
            outputs = step.outputs
            if wrong is None and (text := nonfinite_of(step)):
                wrong = Place(number, 0, text)
    except HookFault as fault:
        return {}, fault
    if not rewards and any(not np.isfinite(x).all() for x in outputs.values()):
        wrong = Place(-1, 0, "an observation is not finite")
    state = {f"state/{name}": values for name, values in alone.get_state().items()}
    shape = (len(rewards), 1, alone.num_agents)
    return {"reward": np.array(rewards, np.float32).reshape(shape), **outputs, **state}, wrong


def nonfinite_of(step: StepResult) -> str:
    """Return the names of the arrays of a step that are not finite, each with the place of the first such number; "" without."""
    shown = []
    for name, values in step.outputs.items():
        if values.dtype.kind != "f" or (name.startswith("final_obs") and not step.ended.all()):
            continue
        if (bad := ~np.isfinite(values)).any():
            place = tuple(np.argwhere(bad)[0].tolist())
            shown.append(f"{name}[{', '.join(map(str, place[1:]))}] is {values[place]}")
    return ", ".join(shown)


@contextlib.contextmanager
def _single_world(env: Any, world: int) -> Iterator[Any]:
    """Make an env of one world with the parameters of a world, and close it at the end."""
    params = {name: value[world] if name in env.layout.per_world else value for name, value in env.params.items()}
    options = {**OPTIONS, "num_worlds": 1, "device": env._back_end, "autoreset_mode": env.autoreset_mode}
    with contextlib.closing(type(env)(env.env_spec, **options, **params)) as alone:
        yield alone


def _id_of(env: Any) -> str:
    """Return the registered id of an env; empty without one."""
    if env.spec is not None:
        return str(env.spec.id)
    return env.env_spec.name if env.env_spec.name in gymnasium.registry else ""
