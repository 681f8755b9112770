"""Ids of the envs. Entry points are strings, so that registering imports nothing."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from gpu_vecenv.variants import VARIANTS


def _single(folder: str, limit: int, threshold: float | None) -> dict[str, Any]:
    """Arguments to register a single-agent env, for ``make`` and ``make_vec``, with Gymnasium's time limit."""
    return {**_vector(folder), "max_episode_steps": limit, "reward_threshold": threshold}


def _vector(folder: str) -> dict[str, Any]:
    """Arguments to register any env. With several agents, ``gymnasium.make`` raises SeveralAgentsError."""
    return {
        "entry_point": f"gpu_vecenv.envs.{folder}:make",
        "vector_entry_point": f"gpu_vecenv.envs.{folder}:make_vec",
    }


IDS: dict[str, dict[str, Any]] = {
    "WarpTag-v0": _vector("tag"),
    "WarpGridTag-v0": _vector("grid_tag"),
    "WarpCovid-v0": _vector("covid"),
    "WarpCatalysis-v0": _vector("catalysis"),
    "WarpRice-v0": _vector("rice"),
    "WarpRecall-v0": _vector("recall"),
    "WarpForaging-v3": _vector("foraging"),
    "WarpRware-v2": _vector("rware"),
    "WarpSimple-v3": _vector("simple"),
    "WarpSimpleSpread-v3": _vector("simple_spread"),
    "WarpSimpleTag-v3": _vector("simple_tag"),
    "WarpSimpleReference-v3": _vector("simple_reference"),
    "WarpSimpleSpeakerListener-v4": _vector("simple_speaker_listener"),
    "WarpSimpleAdversary-v3": _vector("simple_adversary"),
    "WarpSimplePush-v3": _vector("simple_push"),
    "WarpSimpleCrypto-v3": _vector("simple_crypto"),
    "WarpSimpleWorldComm-v3": _vector("simple_world_comm"),
    "WarpCartPole-v1": _single("cartpole", 500, 475.0),
    "WarpAcrobot-v1": _single("acrobot", 500, -100.0),
    "WarpMountainCar-v0": _single("mountain_car", 200, -110.0),
    "WarpMountainCarContinuous-v0": _single("mountain_car_continuous", 999, 90.0),
    "WarpPendulum-v1": _single("pendulum", 200, None),
}
"""Every id but variants, with its arguments. ``gymnasium.make`` refuses those with several agents."""


def register_envs() -> None:
    """Register each id that is not registered yet, so that a second import gives no warning."""
    for name, arguments in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, **arguments)
    # ``gymnasium.register()`` looks at all ids for each, which takes most of a second for thousands of variants.
    for name, variant in VARIANTS.items():
        spec = EnvSpec(name, **IDS[variant.env_id], kwargs=dict(variant.params))
        gymnasium.registry.setdefault(name, spec)


def param_names(ids: Iterable[str] = IDS) -> list[str]:
    """Return the names of the parameters of envs of ``IDS``, by default of all, for suggestions. It imports their specs."""
    modules = [IDS[name]["entry_point"].partition(":")[0] for name in ids]
    return [param.name for module in modules for param in importlib.import_module(f"{module}.spec").SPEC.params]
