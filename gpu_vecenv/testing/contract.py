"""Checks that an env keeps what its spec and Gymnasium promise: spaces, finite numbers, starts, modes of autoreset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Space

from gpu_vecenv.spec.fields import Field
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.difference import Arrays, first_difference, flat, number, place
from gpu_vecenv.testing.errors import CheckError, NotRunError
from gpu_vecenv.testing.run import arrays_of, state_of
from gpu_vecenv.testing.subject import Subject, action_table
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.outputs.tree import tree_map


def _spaces(space: Space, name: str) -> dict[str, Any]:
    """Return the boxes of a space by the path of their array."""
    if isinstance(space, Dict):
        return {path: box for key, part in space.items() for path, box in _spaces(part, f"{name}.{key}").items()}
    return {name: space}


def _refuse(layout: Layout, step: int, name: str, array: np.ndarray, wrong: np.ndarray, expected: str) -> None:
    """Raise CheckError with the first number that is wrong."""
    if wrong.any():
        index = tuple(int(k) for k in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        when = f"step {step}" if step else "after the reset"
        raise CheckError(f"{when}, {place(layout, name, index)}: expected {expected}, got {number(array[index])}.")


def check_values(subject: Subject) -> str:
    """Check that observations lie in their space, rewards are finite, and the state keeps the bounds of its fields."""
    env = subject.make()
    layout, boxes = env.layout, _spaces(env.single_observation_space, "obs")
    bounds = {f"state.{name}": pair for name, pair in layout.bounds.items()}
    for step, arrays in enumerate(_steps_with_state(env, subject)):
        for name, array in arrays.items():
            box = boxes.get(name.removeprefix("final_"))
            if array.dtype.kind == "f" and (box is not None or name in ("reward", "agent_reward")):
                _refuse(layout, step, name, array, ~np.isfinite(array), "a finite number")
            if box is not None and not name.startswith("final_"):  # a final observation is 0 where no episode ended
                wrong = (array < box.low) | (array > box.high)
                low, high = float(np.min(box.low)), float(np.max(box.high))
                _refuse(layout, step, name, array, wrong, f"a number of the space, from {low:g} to {high:g}")
            if name in bounds:
                low, high = bounds[name]
                _refuse(layout, step, name, array, (array < low) | (array > high), f"{low:g} to {high:g}, as the field declares")
    env.close()
    return f"{subject.num_steps} steps"


def _steps_with_state(env: GpuVectorEnv[np.ndarray], subject: Subject) -> Iterator[Arrays]:
    """Yield the results and the state of the reset and of each step."""
    obs, _ = env.reset(seed=subject.seed)
    yield flat(obs, "obs") | state_of(env)
    actions = action_table(env, subject.num_steps, subject.seed + 1)
    for t in range(subject.num_steps):
        yield arrays_of(env.step(tree_map(lambda array, t=t: array[t], actions))) | state_of(env)


def check_reset(subject: Subject) -> str:
    """Check that ``env_reset`` writes all of the state and reads nothing of the previous episode.

    The same reset runs twice, after two different fillings of the memory of the state.
    """
    env, states = subject.make(), []
    layout = env.layout
    for number_of_poison in range(2):
        for field in layout.spec.state:
            array = env.worlds.state.fields[field.name]
            array[...] = _poison(layout, field, number_of_poison).reshape((1,) * array.ndim)
        obs, _ = env.reset(seed=subject.seed)
        states.append(flat(obs, "obs") | state_of(env))
    env.close()
    for part in ("state.", "obs"):
        one, two = ({name: state[name] for name in state if name.startswith(part)} for state in states)
        difference = first_difference(layout, one, two)
        if difference is not None:
            raise CheckError(f"after the reset, {difference}, by what the memory held before; env_reset does not write it, "
                             "or reads the previous episode.")  # fmt: skip
    return f"fields: {len(layout.spec.state)}"


def _poison(layout: Layout, field: Field, which: int) -> np.ndarray:
    """Return one of two values that a field may hold; fields that kernels use as an index have bounds."""
    low, high = layout.bounds[field.name]
    dtype = np.dtype(field.dtype)
    if dtype.kind == "f":
        plain = (np.nan, -1e30)[which]
        return np.array(plain if np.isinf(low) and np.isinf(high) else (low, high)[which], dtype)
    smallest, largest = max(low, np.iinfo(dtype).min), min(high, np.iinfo(dtype).max)
    return np.array(int((smallest, largest)[which])).astype(dtype)


def check_autoreset(subject: Subject) -> str:
    """Compare the modes of autoreset: each must give the same episodes."""
    subject = subject.with_short_episodes()
    layout = subject.layout()
    expected, ends = _episodes(subject, "disabled")
    if not ends:
        raise NotRunError(f"no episode ended in {subject.num_steps} steps; give parameters with which episodes are shorter")
    for mode in ("same_step", "next_step"):
        episodes, _ = _episodes(subject, mode)
        for world, (one, two) in enumerate(zip(expected, episodes, strict=True)):
            for step, (left, right) in enumerate(zip(one, two, strict=False)):  # a mode may have taken fewer steps
                as_one = [{name: array[None] for name, array in each.items()} for each in (left, right)]
                difference = first_difference(layout, as_one[0], as_one[1])
                if difference is not None:
                    words = difference.replace("world 0", f"world {world}", 1)
                    raise CheckError(f"step {step} of the world, {words}; with autoreset_mode={mode!r}.")
    return f"ends of episodes: {ends}"


def _episodes(subject: Subject, mode: str) -> tuple[list[list[Arrays]], int]:
    """Return the results of each step of each world in a mode of autoreset, and the number of ends of episodes.

    Steps that start an episode and ignore the action do not count. Each step has the observation in which it ended, as
    ``final``, and the one that the next step begins with, as ``obs``.
    """
    env = subject.make(autoreset_mode=mode)
    obs, _ = env.reset(seed=subject.seed)
    table = action_table(env, subject.num_steps, subject.seed + 1)
    worlds = np.arange(env.num_envs)
    steps: list[list[Arrays]] = [[] for _ in worlds]
    waits, ends = np.zeros(env.num_envs, bool), 0
    for _ in range(subject.num_steps):
        taken = np.array([len(one) for one in steps])
        out = env.step(tree_map(lambda array, taken=taken: array[taken, worlds], table))
        arrays = arrays_of(out)
        ended = arrays["terminated"] | arrays["truncated"]
        begins = flat(out[0], "obs")
        if mode == "disabled" and ended.any():
            begins = flat(env.reset(options={"reset_mask": ended})[0], "obs")
        begins = {name: np.array(array) for name, array in begins.items()}
        for w in worlds:
            if mode == "next_step" and waits[w]:
                steps[w][-1] |= {name: array[w] for name, array in begins.items()}
                continue
            final = "final_obs" if mode == "same_step" and ended[w] else "obs"
            last = {f"final_{name}": arrays[name.replace("obs", final, 1)][w] for name in begins}
            pays = {name: arrays[name][w] for name in ("reward", "agent_reward", "terminated", "truncated") if name in arrays}
            steps[w].append(last | pays | {name: array[w] for name, array in begins.items()})
        if mode == "next_step":
            waits, ended = ended & ~waits, ended & ~waits
        ends += int(ended.sum())
    env.close()
    if mode == "next_step":  # the observation that begins the next episode comes with the next step
        steps = [one[:-1] for one in steps]
    return steps, ends
