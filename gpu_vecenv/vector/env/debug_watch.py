"""Watch over steps with ``debug=True``: a world that goes wrong is written to a file for ``gpu-vecenv replay``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpu_vecenv.errors import HookFault, NonFiniteError, RecordingError
from gpu_vecenv.spec.validation import host_array
from gpu_vecenv.vector.env.stepping import by_world
from gpu_vecenv.vector.env.world_file import Place, describe_place, first_nonfinite, replay_command, write_world
from gpu_vecenv.vector.inputs.actions import KernelActions
from gpu_vecenv.vector.inputs.rollout_plan import RolloutPlan
from gpu_vecenv.vector.outputs.outputs import OutputArrays


class DebugWatch:
    """Makes the launches of an env, keeps the state before each of them, and looks at what it gave.

    Methods get the ``GpuVectorEnv`` as an argument, because a part of an env does not hold it.

    Raises:
        NonFiniteError: a reward or an observation is not finite; the message names role, world, step and the file.
        HookFault: a hook failed; the message names the world and the file.
    """

    def __init__(self) -> None:
        self._state: dict[str, np.ndarray] = {}

    def reset(self, env: Any, *arguments: Any) -> OutputArrays:
        """Call ``Worlds.reset()``."""
        results: OutputArrays = env.worlds.reset(*arguments)
        self._keep(env)
        place = first_nonfinite(_floats(env, results, False, of_reset=True), env)
        if place is not None:
            nothing = [np.zeros((0, *shape), np.float32) for shape in _shapes(env)]
            raise self._error(env, place._replace(step=-1), world_actions(env, nothing, 0))
        return results

    def step(self, env: Any, actions: KernelActions | list[KernelActions]) -> OutputArrays:
        """Call ``Worlds.step()``."""
        self._keep(env)
        actions_by_world = world_actions(env, [one[0] for one in _listed(actions)], 1)
        with self._faults(env, actions_by_world):
            results: OutputArrays = env.worlds.step(actions)
        self._check(env, results, actions_by_world, has_steps=False)
        return results

    def rollout(self, env: Any, plan: RolloutPlan) -> OutputArrays:
        """Call ``Worlds.rollout()`` with a plan that keeps drawn actions."""
        self._keep(env)
        actions_by_world = {} if plan.draw else world_actions(env, [one[0] for one in _listed(plan.actions)], plan.num_steps)
        with self._faults(env, actions_by_world):
            results: OutputArrays = env.worlds.rollout(plan)
        self._check(env, results, actions_by_world or world_actions(env, results.actions, plan.num_steps), has_steps=True)
        return results

    def _keep(self, env: Any) -> None:
        self._state = {name: np.array(values) for name, values in env.worlds.state.on_host().items()}

    @contextmanager
    def _faults(self, env: Any, actions: Mapping[str, np.ndarray]) -> Iterator[None]:
        """Add the world and its file to the error of a hook. Without actions, which the device draws, no file is written."""
        try:
            yield
        except HookFault as fault:
            if not actions:
                raise
            raise type(fault)(f"{fault} {self._of_fault(env, actions, fault)}") from fault

    def _check(self, env: Any, results: OutputArrays, actions: Mapping[str, np.ndarray], has_steps: bool) -> None:
        place = first_nonfinite(_floats(env, results, has_steps), env)
        if place is not None:
            raise self._error(env, place, {role: values[: place.step + 1] for role, values in actions.items()})

    def _error(self, env: Any, place: Place, actions: Mapping[str, np.ndarray]) -> NonFiniteError:
        text = f"{env.env_spec.name}: {describe_place(place, self._state)}"
        try:
            file, wrong = write_world(env, place.world, self._state, actions, text)
        except (OSError, RecordingError) as error:
            return NonFiniteError(f"{text}; the world was not written: {error}")
        if wrong is None:
            file.unlink()
            return NonFiniteError(f"{text}; the env's own numbers are finite, so look at what changes them, such as reward=")
        failure = NonFiniteError(f"{text}; {replay_command(env, file)} makes this step again")
        failure.file = str(file)
        return failure

    def _of_fault(self, env: Any, actions: Mapping[str, np.ndarray], fault: HookFault) -> str:
        """Find the first world whose hook fails, and return the text about its file."""
        for world in range(env.num_worlds):
            try:
                file, wrong = write_world(env, world, self._state, actions, str(fault))
            except (OSError, RecordingError) as error:
                return f"The world was not written: {error}."
            if isinstance(wrong, HookFault):
                step = int(self._state["t"][world])
                again = replay_command(env, file)
                return f"It fails in world {world}, {step} steps after its start; {again} makes the step again."
            file.unlink()
        return "It does not fail in a world alone, so no world was written."


def world_actions(env: Any, arrays: Sequence[Any], num_steps: int) -> dict[str, np.ndarray]:
    """Return actions by world, as a ``Part`` has them.

    Args:
        env: the env.
        arrays: actions of each group as the env takes them; of one step, which all steps repeat, or of each step.
        num_steps: number of steps.
    """
    actions = {}
    for group, shape, array in zip(env.layout.groups, _shapes(env), arrays, strict=True):
        values = np.asarray(host_array(array))
        values = values.astype(group.action_dtype) if group.action_dtype != "float32" else values
        if values.ndim == len(shape):
            values = np.broadcast_to(values, (num_steps, *values.shape))
        if not env.layout.by_role and env.worlds.view.flat:  # rows of agents
            values = np.moveaxis(by_world(np.moveaxis(values, 1, -1), env.role_counts, env.num_worlds), (-2, -1), (1, 2))
        actions[group.role if env.layout.by_role else ""] = np.ascontiguousarray(values)
    return actions


def _shapes(env: Any) -> list[tuple[int, ...]]:
    """Return the shape of the actions of one step of each group."""
    return [shape for shape, _ in env.worlds.outputs.results.actions.values()]


def _listed(actions: Any) -> list[Any]:
    return actions if isinstance(actions, list) else [actions]


def _floats(env: Any, results: OutputArrays, has_steps: bool, of_reset: bool = False) -> dict[str, np.ndarray]:
    """Return the rewards and observations of results on the host, (T, ...), with 0 where final ones are not valid."""
    indices, memory = env.worlds.outputs.results.indices, env.worlds.output_memory
    names = [name for name in indices if name.endswith("obs") or name == "agent_reward"]
    names = [name for name in names if not of_reset or name in env.worlds.outputs.results.carried]

    def read(name: str) -> np.ndarray:
        values: np.ndarray = memory.to_numpy(results.arrays[indices[name]])
        return values if has_steps else values[None]

    floats = {name: read(name) for name in names}
    for name in floats:
        if "final_" in name:
            finished = read("finished")
            floats[name] = np.where(finished.reshape(*finished.shape, *(1,) * (floats[name].ndim - 2)), floats[name], 0)
    return floats
