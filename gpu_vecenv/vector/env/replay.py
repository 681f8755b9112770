"""``replay()``: makes the recorded steps of a world again, one at a time, for a debugger."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gpu_vecenv.errors import DifferenceError, RecordingError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.vector.env.recording import Recording, read_recording
from gpu_vecenv.vector.env.stepping import StepResult, named, started, steps
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.env.verify import first_difference, recorded_env

MENDED = ("kernel", "numbers")
"""Parts of an env that may change while a recorded state and actions keep their meaning."""


def read_world(file: str | Path) -> Recording:
    """Read a file of a world.

    Raises:
        RecordingError: the file cannot be read, or is an evaluation.
    """
    recording = read_recording(file)
    if recording.kind != "world" or len(recording.parts) != 1 or recording.num_worlds != 1:
        raise RecordingError(f"{file}: expected a recorded world, got an evaluation: gpu-vecenv verify plays it again")
    return recording


def replay(
    file: str | Path, device: str = "cpu", env_spec: EnvSpec | None = None, changed: bool = False
) -> Iterator[StepResult]:
    """Make the recorded steps of a world again, to the same bits.

    Args:
        file: a file that ``debug=True`` or a training run wrote, see ``NonFiniteError.file``.
        device: ``"cpu"``, ``"cuda"``, or ``"python"`` for hooks in Python, in which ``breakpoint()`` stops.
        env_spec: the env; None takes the registered env that the file names. No module is imported for it.
        changed: the hooks and numbers of the env may have changed since. The steps are then those of the present env, and are not
            compared with the file.

    Yields:
        The results of each step.

    Raises:
        RecordingError: the file cannot be read, is no world, or is of an env that has changed. With ``changed``, of one whose
            state or spaces have.
        DifferenceError: after the last step, if a reward, an observation or the state has other bits than recorded.
        HookFault: a hook failed again.
        CompileError, DeviceError, OutOfMemoryError: the env cannot be made.
    """
    recording = read_world(file)
    with contextlib.closing(recorded_env(recording, device, env_spec, MENDED if changed else ())) as env:
        yield from replayed(file, recording, env)


def replayed(file: str | Path, recording: Recording, env: GpuVectorEnv) -> Iterator[StepResult]:
    """Yield the steps of a world in an env, and compare them with the file unless the env has changed since; see ``replay()``."""
    part = recording.parts[0]
    started(env, part)
    present, rewards = dict(named("obs", env.observe())), []
    for step in steps(env, part.actions):
        rewards.append(step.reward)
        present = step.outputs
        yield step
    if recording.changed_parts(env.layout):
        return
    present |= {f"state/{name}": values for name, values in env.get_state().items()}
    present["reward"] = np.array(rewards, np.float32).reshape(len(rewards), 1, env.num_agents)
    for name, recorded in part.results.items():
        values = present.get(name)
        if values is None or values.shape != recorded.shape or values.dtype != recorded.dtype:
            raise RecordingError(f"{file}: expected results of the env, got {name} as {recorded.dtype} {recorded.shape}")
        unset = name.startswith("final_obs") and not (present["terminated"] | present["truncated"]).any()
        place = None if unset else first_difference(recorded, values)
        if place is not None:
            where = f"{name}[{', '.join(map(str, place))}]"
            raise DifferenceError(f"{file}: expected {where} = {recorded[place].item()!r}, got {values[place].item()!r}")
