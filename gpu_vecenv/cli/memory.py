"""The command ``memory``: bytes that an env, or a training run, would take on its device."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Annotated

import torch
import tyro

from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.backend.select import choose_device
from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings
from gpu_vecenv.cli.run_options import LearningOptions, RunOptions, given_options, option_name
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.train.runner.build import import_modules, make_env, make_vec
from gpu_vecenv.vector.inputs.autoreset import parse_autoreset_mode
from gpu_vecenv.vector.outputs.memory_needs import memory_needs, room_for
from gpu_vecenv.vector.outputs.views import View, count_worlds

REPLAY = "replay buffers"
"""Purpose of the bytes of a training run that do not grow with its worlds."""


def memory(
    env_id: tyro.conf.Positional[Annotated[str, help_option("", "ENV_ID")]],
    num_envs: Annotated[int | None, help_option("1; with --train the preset's", "INT")] = None,
    num_worlds: Annotated[int | None, help_option("from --num-envs", "INT")] = None,
    view: Annotated[str | None, help_option("worlds", "STR")] = None,
    autoreset_mode: Annotated[str | None, help_option("same_step", "STR")] = None,
    copy: bool = True,
    device: str = "auto",
    env: Annotated[Settings, help_option("the env's defaults; with --train the preset's", "KEY=VALUE ...")] = (),
    train: bool = False,
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
    learning: Annotated[LearningOptions, tyro.conf.arg(name="")] = LearningOptions(),  # noqa: B008  (frozen)
) -> None:
    """Print the memory that an env takes on its device, without making it; with --train, the memory that a training run takes.

    Example: gpu-vecenv memory WarpTag-v0 --num-envs 2000 --env num_runners=20

    CUDA, torch and compiled kernels take a few hundred megabytes more, the same for every env.

    Args:
        env_id: registered env id, such as WarpTag-v0.
        num_envs: worlds, or rows of agents with --view agents.
        num_worlds: worlds, instead of --num-envs.
        view: worlds or agents.
        autoreset_mode: same_step, next_step or disabled.
        copy: new arrays in each step, the default of make_vec.
        device: auto, cpu or cuda:0; for a GPU its free memory is printed, too.
        env: env parameters by name, such as num_taggers=5 num_runners=20.
        train: print what gpu-vecenv train takes with the same options, without --view, --autoreset-mode and --no-copy.
        modules: modules that register the env, algorithms and networks, to import first.
        learning: with --train: options of policies and of how they learn.
    """
    device = choose_device(device)
    import_modules(modules)
    of_training = given_options(learning)
    of_env = {"view": view, "autoreset_mode": autoreset_mode, "no_copy": None if copy else True}
    unused = [name for name, value in (of_env if train else of_training).items() if value is not None]
    if unused:
        where = "without --train" if train else "with --train"
        raise ParameterError(f"{option_name(unused[0])}: expected it {where} only.")
    if train:
        if None not in (num_envs, num_worlds):
            raise ParameterError("--num-worlds: expected it or --num-envs, got both.")
        sizes = RunOptions(num_envs=num_envs if num_worlds is None else num_worlds, env_kwargs=env)
        worlds, layout, needs = _of_training(env_id, given_options(sizes) | of_training, device)
    else:
        by_agent, mode = view == "agents", autoreset_mode or "same_step"
        options = {"num_worlds": 1, "view": view or "worlds", "device": "cpu", "array": "numpy", "autoreset_mode": mode}
        with contextlib.closing(make_vec(env_id, parse_settings(env, "--env"), options)) as small_env:
            layout = small_env.layout
        worlds = count_worlds(1 if num_envs is None else num_envs, num_worlds, layout, by_agent)
        needs = memory_needs(View(layout, worlds, by_agent), parse_autoreset_mode(mode), copy)
    _print(env_id, layout, worlds, needs, device)


def _of_training(env_id: str, options: Mapping[str, object], device: str) -> tuple[int, Layout, dict[str, int]]:
    """Return the worlds of a training run, the layout of its env, and the bytes that the run takes by purpose."""
    from gpu_vecenv.train.config import TrainConfig, resolve
    from gpu_vecenv.train.runner.effects import require_used
    from gpu_vecenv.train.runner.executor import require_gpu
    from gpu_vecenv.train.runner.memory import training_needs
    from gpu_vecenv.train.runner.run_state import policies_with_networks

    run = TrainConfig.from_options({"env_id": env_id, **options})
    config = resolve(run)
    with contextlib.closing(make_env(dataclasses.replace(config, device="cpu"), 1)) as small_env:
        layout = small_env.layout
        require_used(run, policies_with_networks(small_env, config.policy_map))
    require_gpu(config, torch.device(device))
    return config.num_envs, layout, training_needs(config, layout, torch.device(device))


def _print(env_id: str, layout: Layout, worlds: int, needs: Mapping[str, int], device: str) -> None:
    """Print bytes by purpose, and for a GPU the worlds that fit."""
    total = sum(needs.values())
    agents = f"{layout.num_agents} agents" if layout.num_agents > 1 else "one agent"
    print(f"{env_id}: {worlds:,} worlds of {agents}")
    for use, size in [*needs.items(), ("in all", total)]:
        print(f"  {use:{max(28, *map(len, needs))}}{size / 1e6:14,.3f} MB{size / worlds:14,.1f} B a world")
    if device != "cpu":
        free = TorchMemory(device).free_bytes() or 0
        growing = {use: size for use, size in needs.items() if use != REPLAY}
        room = room_for(growing, max(0, free - needs.get(REPLAY, 0)), worlds)
        print(f"{device} has {free / 1e6:,.0f} MB free: room for about {room:,} worlds")
