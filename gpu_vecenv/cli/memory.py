"""The command ``memory``: bytes that an env takes on its device, told before it is made."""

from __future__ import annotations

import contextlib
from typing import Annotated

import tyro

from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.backend.select import choose_device
from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings
from gpu_vecenv.train.build import make_vec
from gpu_vecenv.vector.autoreset import parse_autoreset_mode
from gpu_vecenv.vector.memory_needs import memory_needs, room_for
from gpu_vecenv.vector.views import View, count_worlds


def memory(
    env_id: tyro.conf.Positional[str],
    num_envs: int = 1,
    num_worlds: Annotated[int | None, help_option("as --num-envs says", "INT")] = None,
    view: str = "worlds",
    autoreset_mode: str = "same_step",
    copy: bool = True,
    device: str = "auto",
    env: Annotated[Settings, help_option("those of the env", "KEY=VALUE ...")] = (),
) -> None:
    """Say how much memory an env takes on its device, without making it.

    Example: gpu-vecenv memory WarpTag-v0 --num-envs 2000 --env num_runners=20

    CUDA, torch and compiled kernels take some hundred megabytes beside it, whatever the env.

    Args:
        env_id: registered env id, such as WarpTag-v0.
        num_envs: worlds, or rows of agents with --view agents.
        num_worlds: worlds, as another way to say the size.
        view: worlds or agents.
        autoreset_mode: same_step, next_step or disabled.
        copy: fresh arrays in each step, as is the default of make_vec.
        device: auto, cpu or cuda:0; where there is a GPU, its free memory is told, too.
        env: env parameters by name, such as num_taggers=5 num_runners=20.
    """
    where = choose_device(device)
    options = {"num_worlds": 1, "view": view, "device": "cpu", "array": "numpy", "autoreset_mode": autoreset_mode}
    with contextlib.closing(make_vec(env_id, parse_settings(env, "--env"), options)) as made:
        layout = made.layout
    worlds = count_worlds(num_envs, num_worlds, layout, view == "agents")
    parts = memory_needs(View(layout, worlds, view == "agents"), parse_autoreset_mode(autoreset_mode), copy)
    total = sum(parts.values())
    agents = f"{layout.num_agents} agents" if layout.num_agents > 1 else "one agent"
    print(f"{env_id}: {worlds:,} worlds of {agents}")
    for what, size in [*parts.items(), ("in all", total)]:
        print(f"  {what:28}{size / 1e6:14,.3f} MB{size / worlds:14,.1f} B a world")
    if where != "cpu":
        free = TorchMemory(where).free_bytes() or 0
        print(f"{where} has {free / 1e6:,.0f} MB free: room for about {room_for(parts, free, worlds):,} worlds")
