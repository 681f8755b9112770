"""The command ``play``: a visitor steers an agent, in a page or in a window."""

from __future__ import annotations

import dataclasses
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

import tyro

from gpu_vecenv.cli.key_value import Settings, help_option, require_within
from gpu_vecenv.cli.who_plays import who_plays
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.runner.build import import_modules
from gpu_vecenv.train.runner.evaluation import Game, game_of
from gpu_vecenv.train.runner.page import MAX_RATE, MAX_SEED, PageOptions, everyone_random, write
from gpu_vecenv.train.runner.window import play_in_window
from gpu_vecenv.train.storage.policy_map import with_changes


def play(
    run: tyro.conf.Positional[Annotated[str, help_option("", "ENV|RUN")]],
    role: Annotated[str | None, help_option("the first role", "ROLE")] = None,
    against: Annotated[str | None, help_option("random actions", "RUN")] = None,
    window: bool = False,
    out: Annotated[Path | None, help_option("a new file in the folder of temporary files", "FILE|FOLDER")] = None,
    seed: int = 0,
    rate: int = 15,
    policy: Annotated[Settings, help_option("as in training", "ROLE=WHO ...")] = (),
    env: Annotated[Settings, help_option("as in training", "KEY=VALUE ...")] = (),
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
) -> None:
    """Play an env among the policies of a run: steer one of its agents by arrow keys, W A S D or touch.

    A page opens in the browser; gpu-vecenv page writes one for others. With --window a window of pygame opens instead, and any
    policy may act in it.

    Example: gpu-vecenv play WarpTag-v0 --role runner --against runs/tag

    Args:
        run: env id, a run's folder or a checkpoint file.
        role: role of the agent.
        against: run whose policies act for all other agents, of the same env.
        window: play in a window of pygame.
        out: page to write.
        seed: seed of the first episode.
        rate: steps a second at first, 1 to 60.
        policy: roles with another policy than in training; see gpu-vecenv eval.
        env: parameters of the env that differ from those of the run.
        modules: modules that register the run's env and networks, to import first; a checkpoint alone imports none.
    """
    import_modules(modules)
    require_within("--seed", seed, 0, MAX_SEED)
    require_within("--rate", rate, 1, MAX_RATE)
    if window and out is not None:
        raise ParameterError(f"--out: expected none with --window, which writes no page; got {out}.")
    game = _game(run, against, policy, env)
    if window:
        play_in_window(game, role, seed, rate)
        return
    path = Path(tempfile.mkdtemp(prefix="gpu_vecenv-")) / "play.html" if out is None else out
    written = write(game, path, PageOptions(None, seed, rate, role, plays=True)).path
    address = (written if written.suffix == ".html" else written / "index.html").resolve().as_uri()
    opened = written.suffix == ".html" and webbrowser.open(address)
    print(f"page: {written}{'' if opened else f'; open {address}' if written.suffix == '.html' else '; serve this folder'}")


def _game(run: str, against: str | None, policy: Settings, env: Settings) -> Game:
    """Return who plays.

    Raises:
        ParameterError: the run is one of another env.
    """
    target, policy_map, changes = who_plays(against or run, policy, env, None, "cpu")
    if isinstance(target, TrainConfig):  # an env id
        policy_map = with_changes(everyone_random(dataclasses.replace(target, device="cpu")), policy_map)
    game = game_of(target, policy_map, None, changes)
    if against is not None and game.config.env_id.rpartition(":")[2] != run.rpartition(":")[2]:
        raise ParameterError(f"--against: expected a run of {run}, got one of {game.config.env_id}.")
    return game
