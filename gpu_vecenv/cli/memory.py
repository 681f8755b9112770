"""The command ``memory``: bytes that an env would take on its device."""

from __future__ import annotations

import contextlib
from typing import Annotated

import tyro

from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.backend.select import choose_device
from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings
from gpu_vecenv.train.runner.build import make_vec
from gpu_vecenv.vector.autoreset import parse_autoreset_mode
from gpu_vecenv.vector.memory_needs import memory_needs, room_for
from gpu_vecenv.vector.views import View, count_worlds


def memory(
    env_id: tyro.conf.Positional[str],
    num_envs: int = 1,
    num_worlds: Annotated[int | None, help_option("from --num-envs", "INT")] = None,
    view: str = "worlds",
    autoreset_mode: str = "same_step",
    copy: bool = True,
    device: str = "auto",
    env: Annotated[Settings, help_option("the env's defaults", "KEY=VALUE ...")] = (),
) -> None:
    """Print the memory that an env takes on its device, without making it.

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
    """
    device = choose_device(device)
    options = {"num_worlds": 1, "view": view, "device": "cpu", "array": "numpy", "autoreset_mode": autoreset_mode}
    with contextlib.closing(make_vec(env_id, parse_settings(env, "--env"), options)) as small_env:
        layout = small_env.layout
    worlds = count_worlds(num_envs, num_worlds, layout, view == "agents")
    needs = memory_needs(View(layout, worlds, view == "agents"), parse_autoreset_mode(autoreset_mode), copy)
    total = sum(needs.values())
    agents = f"{layout.num_agents} agents" if layout.num_agents > 1 else "one agent"
    print(f"{env_id}: {worlds:,} worlds of {agents}")
    for use, size in [*needs.items(), ("in all", total)]:
        print(f"  {use:28}{size / 1e6:14,.3f} MB{size / worlds:14,.1f} B a world")
    if device != "cpu":
        free = TorchMemory(device).free_bytes() or 0
        print(f"{device} has {free / 1e6:,.0f} MB free: room for about {room_for(needs, free, worlds):,} worlds")
