"""Envs of which tests have hooks in Python beside those in C++."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium
import numpy as np

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.run import OF_ENDS
from gpu_vecenv.testing.subject import random_actions
from tests.kernels.test_ptx import spec_of
from tests.parity import trajectory
from tests.pyhooks import spread
from tests.trees import leaves, map_tree

PORTS = {"WarpCartPole-v1": "cartpole", "WarpGridTag-v0": "grid_tag", "Pot-v0": "pot", "Harvest-v0": "harvest",
         "Spread-v0": "spread"}  # fmt: skip
"""Files of hooks in ``ports`` by id."""

OF_SPREAD = {
    "walkers": ("Spread-v0", {"num_envs": 12, "max_episode_steps": 30}),
    "walkers, more agents than lanes": ("Spread-v0", {"num_envs": 3, "num_walkers": 40, "max_episode_steps": 30}),
}
CASES = {case: name for case, (name, _) in {**trajectory.CASES, **OF_SPREAD}.items() if name in PORTS}
"""Ids by case of ``hash_of()``."""


def hash_of(case: str, **options: Any) -> str:
    """Return ``trajectory_hash()`` of a case, which may be one of Spread."""
    with mock.patch.dict(trajectory.CASES, OF_SPREAD):
        return trajectory.trajectory_hash(case, **options)


def bits_of(case: str, steps: int, mode: str, backend: Any = None, **options: Any) -> str:
    """Return a hash of all results of an env in any mode of autoreset, and of its state at the end.

    In the disabled mode, finished worlds are reset after each step. ``backend`` is as for ``trajectory_hash()``.
    """
    name, params = {**trajectory.CASES, **OF_SPREAD}[case]
    env = gymnasium.make_vec(name, **{"device": "cpu", **params, "array": "numpy", "autoreset_mode": mode, **options}).unwrapped
    if backend is not None:
        env.worlds.backend = backend(env.layout)
    digest, generator, ended = hashlib.sha256(), np.random.default_rng(11), 0
    seen = [*env.reset(seed=7)]
    for _ in range(steps):
        actions = random_actions(env.single_action_space, env.num_envs, generator)
        obs, reward, terminated, truncated, info = env.step(actions)
        finished = terminated | truncated
        ended += int(finished.sum())
        mark = info.get("_final_obs", finished)
        info |= {part: map_tree(itemgetter(mark), info[part]) for part in OF_ENDS if part in info}
        seen += [obs, reward, terminated, truncated, info]
        if mode == "disabled" and finished.any():
            seen += env.reset(options={"reset_mask": finished})
        for array in leaves(dict(enumerate(seen))):
            digest.update(np.ascontiguousarray(array).tobytes())
        seen.clear()
    for array in env.get_state().values():
        digest.update(array.tobytes())
    env.close()
    if steps >= 900 and ended < env.num_worlds:
        raise RuntimeError(f"{case}: only {ended} episodes ended, too few to test resets")
    return digest.hexdigest()


def port_of(spec: EnvSpec, text: str | None = None, folder: Path | None = None) -> EnvSpec:
    """Return a spec with hooks in Python: those of ``ports``, or a text that is written to a folder."""
    path = Path(__file__).parent / "ports" / f"{PORTS[spec.name]}.py"
    if text is not None and folder is not None:
        path = folder / "hooks.py"
        path.write_text(text)
    return replace(spec, kernel=path)


def ported(layout: Layout) -> Layout:
    """Return the layout of the same env with hooks in Python."""
    return Layout(port_of(layout.spec), layout.params)


def spec_in_cpp(name: str) -> EnvSpec:
    """Return the spec of an id, with hooks in C++."""
    return spread.SPEC if name == "Spread-v0" else spec_of(name)


def actions_of(env: Any, generator: np.random.Generator) -> Any:
    """Return random actions of one step."""
    return random_actions(env.single_action_space, env.num_envs, generator)
