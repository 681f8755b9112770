"""WarpDrive from its source folder: steps on a GPU, of Tag with almost all agents in the game, and Tag's Python step on the CPU.

WarpDrive uses Numba here, its back end that supports all of its envs. It is changed in one point: Tag's first observation, the
same for all envs, is computed once. The source is copied, because WarpDrive writes into its own folder.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
from itertools import cycle
from pathlib import Path
from typing import Any

from gpu_vecenv.bench.cases import TAG, Case
from gpu_vecenv.bench.peers.gym_alias import alias_gym
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local, Reading

NAME, DISTRIBUTION = "WarpDrive", None
SOURCE = "WARPDRIVE_SOURCE"
"""Environment variable with the source folder; ``--warpdrive`` sets it for this process."""

CLASSIC = {"WarpCartPole-v1": ("cartpole", "CartPole", 2), "WarpAcrobot-v1": ("acrobot", "Acrobot", 3)}
AGENTS = 105
"""Agents of the measured Tag. A thousand agents would need more registers than a kernel of WarpDrive can use."""
MAX_WORLDS = {"tag": 2_000, "classic": 100_000}

STEPS_IN_GAME = 20
"""Steps after a reset in which hardly any runner is tagged."""


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """Tag with the parameters of a case, CartPole and Acrobot on a GPU; one world of Tag on the CPU."""
    way = {"device": device, "env_id": case.env, "num_envs": case.worlds, "params": {}}
    if case.env == TAG and case.starts == "own":
        names = ("num_taggers", "num_runners", "use_full_observation")
        way["params"] = {name: case.params[name] for name in names if name in case.params}
        if device == "cpu":
            return [{**way, "path": "Python step"}] if (case.worlds, case.agents) == (1, AGENTS) else []
        return [{**way, "path": "step, all in game"}] if case.agents == AGENTS and case.worlds <= MAX_WORLDS["tag"] else []
    if device != "cpu" and case.env in CLASSIC and case.worlds <= MAX_WORLDS["classic"]:
        return [{**way, "path": "step and reset"}]
    return []


def make(path: str, device: str, env_id: str, num_envs: int, params: dict[str, Any]) -> Subject:
    """Steps without sampling: every step takes the same actions."""
    import_source()
    if path == "Python step":
        return _python_step(params)
    env = _tag(params) if env_id == TAG else _classic(env_id)
    wrapper = _on_gpu(env, env_id, num_envs)
    facts = {"backend": "numba", "agents": wrapper.n_agents}
    if env_id != TAG:
        return Subject(Local(lambda: _step_and_reset(wrapper), device), facts=facts)
    return Subject(FromReset(wrapper.step_all_envs, wrapper.reset_all_envs, device), facts=facts)


class FromReset(Local):
    """Calls after a reset; the reset is not timed."""

    def __init__(self, call: Any, reset: Any, device: str) -> None:
        super().__init__(call, device, STEPS_IN_GAME)
        self._reset = reset

    def read(self, calls: int) -> Reading:
        """Reset, then make ``calls`` calls and wait for their work."""
        self._reset()
        return super().read(calls)


def import_source() -> None:
    """Put a copy of the source, whose folder ``SOURCE`` holds, on the path."""
    alias_gym()
    if importlib.util.find_spec("warp_drive") is not None:
        return
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, True)
    for package in ("warp_drive", "example_envs"):
        shutil.copytree(Path(os.environ[SOURCE]) / package, Path(folder) / package)
    sys.path.insert(0, folder)


def _tag(params: dict[str, Any]) -> Any:
    """Make Tag with the settings of WarpDrive's configuration file; ``params`` replaces some of them."""
    import yaml

    package = importlib.import_module("warp_drive")
    file = Path(str(package.__file__)).parent / "training" / "run_configs" / "tag_continuous.yaml"
    settings = yaml.safe_load(file.read_text())["env"]
    module = importlib.import_module("example_envs.tag_continuous.tag_continuous")
    return module.TagContinuous(**{**settings, **params})


def _classic(env_id: str) -> Any:
    folder, name, _ = CLASSIC[env_id]
    module = importlib.import_module(f"example_envs.single_agent.classic_control.{folder}.{folder}")
    return getattr(module, f"CUDAClassicControl{name}Env")(episode_length=500, reset_pool_size=1_000)


def _python_step(params: dict[str, Any]) -> Subject:
    """Steps of one world in NumPy and Python with given actions."""
    import numpy as np

    env = _tag(params)
    actions = np.random.default_rng(0).integers(0, 21, (8, env.num_agents, 2))
    batches = [{agent: actions[i, agent] for agent in range(env.num_agents)} for i in range(8)]
    next_actions = cycle(batches)

    def step() -> None:
        env.step(next(next_actions))

    return Subject(FromReset(step, env.reset, "cpu"), facts={"agents": env.num_agents})


def _on_gpu(env: Any, env_id: str, num_envs: int) -> Any:
    """Put the env into WarpDrive's wrapper, allocate its actions as WarpDrive's trainer does, and reset it."""
    if env_id == TAG:
        first, reset = env.reset(), env.reset
        env.reset = lambda: (reset(), first)[1]
    wrapper = importlib.import_module("warp_drive.env_wrapper").EnvWrapper(env_obj=env, num_envs=num_envs, env_backend="numba")
    if env_id == TAG:
        wrapper.obs_at_reset = lambda: first
    wrapper.reset_all_envs()
    functions = importlib.import_module("warp_drive.managers.numba_managers.numba_function_manager")
    sampler = functions.NumbaSampler(wrapper.cuda_function_manager)
    roles = {"tagger": list(env.taggers), "runner": list(env.runners)} if env_id == TAG else {"shared": [0]}
    loader = importlib.import_module("warp_drive.training.utils.data_loader")
    loader.create_and_push_data_placeholders(
        env_wrapper=wrapper, action_sampler=sampler, policy_tag_to_agent_id_map=roles,
        training_batch_size_per_env=None, push_data_batch_placeholders=False,
    )  # fmt: skip
    sampler.init_random(7)
    wrapper.init_reset_pool(11)
    wrapper.reset_all_envs()
    _draw_actions(wrapper, env_id)
    return wrapper


def _step_and_reset(wrapper: Any) -> None:
    """Make a step as in WarpDrive's trainer, with a reset of the worlds that are done."""
    wrapper.step_all_envs()
    if wrapper.cuda_data_manager.data_on_device_via_torch("_done_").any():
        wrapper.reset_only_done_envs()


def _draw_actions(wrapper: Any, env_id: str) -> None:
    """Replace the initial actions, which are 0, by random ones."""
    import torch

    actions = wrapper.cuda_data_manager.data_on_device_via_torch("sampled_actions")
    actions.copy_(torch.randint_like(actions, 21 if env_id == TAG else CLASSIC[env_id][2]))
