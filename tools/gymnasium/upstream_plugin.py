"""A pytest plugin for Gymnasium's own tests: with SWAP=1, Gymnasium's ids of classic control make this package's envs.

``CartPole-v1`` also gets our vector env, with NumPy arrays and in next-step mode, like Gymnasium's vector env. Both kinds of envs
have the attributes ``state`` and ``prev_done``, which some tests read. The outcome of each test that made one of the envs is
appended to the file RESULTS, as one JSON object in a line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))
from gpu_vecenv.vector.env.single_env import SingleEnv  # noqa: E402
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv  # noqa: E402

FOLDERS = {
    "CartPole-v1": "cartpole",
    "Acrobot-v1": "acrobot",
    "MountainCar-v0": "mountain_car",
    "MountainCarContinuous-v0": "mountain_car_continuous",
    "Pendulum-v1": "pendulum",
}
MODULE = "gymnasium.envs.swapped"
"""Name of this module in entry points: some tests accept only entry points below ``gymnasium.envs``."""

made_ids: list[str] = []
"""Ids of the swapped envs that were made in the current test."""


class Single(SingleEnv):
    """Our env of one world, with ``state``."""

    @property
    def state(self) -> np.ndarray:
        """State of shape (size,) as in Gymnasium, but float32."""
        return np.asarray(self.vector.get_state()["state"])[0]


class Vector(GpuVectorEnv):
    """Our vector env, with ``state`` and ``prev_done``."""

    @property
    def state(self) -> np.ndarray:
        """State of shape (size, num_envs) as in Gymnasium, but float32."""
        return np.asarray(self.get_state()["state"]).T

    @property
    def prev_done(self) -> np.ndarray:
        """Bool (num_envs,): True if the episode has ended and the next step resets it."""
        state = self.get_state()
        return np.asarray((state["terminated"] | state["truncated"]) != 0)


def _entry(folder: str, name: str, env: Any, **fixed: Any) -> Any:
    """Return an entry point that makes ``env``, without a window, and that has the attributes that Gymnasium reads."""
    entry = partial(env, import_module(f"gpu_vecenv.envs.{folder}").SPEC, **fixed)
    vars(entry).update({"metadata": env.metadata} if name == "make" else {})
    return entry


for _folder in FOLDERS.values():
    globals()[f"{_folder}_env"] = _entry(_folder, "make", Single)
cartpole_vector_env = _entry("cartpole", "make_vec", Vector, device="cpu", array="numpy", autoreset_mode="next_step")


def pytest_configure() -> None:
    """Replace the entry points, and record which of these envs are made."""
    sys.modules[MODULE] = sys.modules[__name__]
    if os.environ.get("SWAP") == "1":
        for name, folder in FOLDERS.items():
            gymnasium.registry[name].entry_point = f"{MODULE}:{folder}_env"
        gymnasium.registry["CartPole-v1"].vector_entry_point = f"{MODULE}:cartpole_vector_env"
    registration = import_module("gymnasium.envs.registration")
    load = registration.load_env_creator
    names = {gymnasium.registry[name].entry_point: name for name in FOLDERS}
    names[gymnasium.registry["CartPole-v1"].vector_entry_point] = "CartPole-v1"

    def load_and_record(entry_point: str) -> Any:
        if entry_point in names:
            made_ids.append(names[entry_point])
        return load(entry_point)

    registration.load_env_creator = load_and_record


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Start a new list of envs for each test."""
    made_ids.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write the outcome of a test that made one of the envs or got one as an argument."""
    report = yield
    if call.when == "setup":
        made_ids.extend(_given_ids(item))
    if call.when == "call" or (call.when == "setup" and not report.passed):
        if made_ids:
            reason = "" if report.passed else str(call.excinfo.value if call.excinfo else report.longrepr).strip()
            line = {"test": item.nodeid, "outcome": report.outcome, "envs": sorted(set(made_ids)), "reason": reason[:300]}
            with open(os.environ["RESULTS"], "a") as results:
                results.write(json.dumps(line) + "\n")
    return report


def _given_ids(item: pytest.Item) -> list[str]:
    """Ids of the envs among the parameters and fixtures of a test."""
    values = getattr(item, "funcargs", {}).values()
    names = [getattr(getattr(value, "spec", None), "id", None) for value in values if isinstance(value, gymnasium.Env)]
    return [name for name in names if name in FOLDERS]
