"""The command ``page``: a web page in which an env runs with policies of runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from gpu_vecenv.cli.key_value import Settings, help_option, require_within
from gpu_vecenv.cli.who_plays import who_plays
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.runner.build import import_modules
from gpu_vecenv.train.runner.evaluation import game_of
from gpu_vecenv.train.runner.page import MAX_RATE, MAX_SEED, MAX_WORLDS, PageOptions, everyone_random, write
from gpu_vecenv.train.storage.policy_map import with_changes


def page(
    run: tyro.conf.Positional[Annotated[str | None, help_option("policies of other runs alone", "RUN")]] = None,
    out: Annotated[Path, help_option("page.html", "FILE|FOLDER")] = Path("page.html"),
    worlds: Annotated[int | None, help_option("about 1,000 agents, at least 4 worlds", "INT")] = None,
    seed: int = 0,
    rate: int = 15,
    role: Annotated[str | None, help_option("the first role", "ROLE")] = None,
    policy: Annotated[Settings, help_option("as in training", "ROLE=WHO ...")] = (),
    env: Annotated[Settings, help_option("as in training", "KEY=VALUE ...")] = (),
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
) -> None:
    """Write a web page in which worlds of an env run: policies act, and a visitor may steer an agent.

    The page runs the env's own kernel, compiled to WebAssembly, and repeats a recorded trajectory to the bit.

    Example: gpu-vecenv page runs/tag --out tag.html --role runner

    Args:
        run: the run's folder, a checkpoint file, or an env id, whose agents then act at random.
        out: a file that ends with .html and opens from disk, or a folder that any web server serves.
        worlds: worlds side by side on the page's wall.
        seed: first seed of the worlds.
        rate: steps a second at first, 1 to 60.
        role: role of the agent that a visitor is offered first.
        policy: roles with another policy than in training; WHO is random, a policy of the run, or
            FOLDER[:POLICY][@best|@newest].
        env: parameters of the env that differ from those of the run.
        modules: modules that register the run's env and networks, to import first; a checkpoint alone imports none.
    """
    import_modules(modules)
    if worlds is not None:
        require_within("--worlds", worlds, 1, MAX_WORLDS)
    require_within("--seed", seed, 0, MAX_SEED)
    require_within("--rate", rate, 1, MAX_RATE)
    if out.suffix == ".html" and out.is_dir() or out.suffix != ".html" and out.is_file():
        raise ParameterError(f"--out must be a file that ends with .html, or a folder; got {out}.")
    target, policy_map, changes = who_plays(run, policy, env, None, "cpu")
    if isinstance(target, TrainConfig):  # an env id
        policy_map = with_changes(everyone_random(dataclasses.replace(target, device="cpu")), policy_map)
    game = game_of(target, policy_map, None, changes)
    written = write(game, out, PageOptions(worlds, seed, rate, role))
    print(f"page: {written.path}, {written.num_bytes:,} bytes, {written.worlds:,} worlds")
