"""The command ``watch``: a video of trained policies at play."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.rendering import WorldRenderers, tile
from gpu_vecenv.train.build import import_modules, make_env
from gpu_vecenv.train.checkpoint import load_checkpoint, saved_config
from gpu_vecenv.train.evaluate import play
from gpu_vecenv.train.settings import Settings, parse_settings
from gpu_vecenv.video import write_video

State = dict[str, np.ndarray]


def watch(
    run: tyro.conf.Positional[str],
    out: Path | None = None,
    episodes: int = 1,
    worlds: int = 1,
    max_frames: int | None = None,
    seed: int = 1,
    device: str = "auto",
    deterministic: bool = False,
    policy: Annotated[Settings, tyro.conf.arg(metavar="ROLE=NAME ...")] = (),
    fps: int = 30,
    modules: Annotated[Settings, tyro.conf.arg(metavar="MODULE ...")] = (),
) -> None:
    """Write a video of worlds in which the policies of a run act.

    Args:
        run: the run's folder, or a checkpoint file.
        out: video to write, .mp4 or .gif; video.mp4 in the run's folder by default.
        episodes: episodes to show one after the other.
        worlds: worlds to show side by side; one that is done waits for the others.
        max_frames: frames after which the video ends in any case.
        seed: seed of the worlds and of sampling.
        device: auto, cpu or cuda:0.
        deterministic: take likeliest actions instead of draws.
        policy: roles that act otherwise than in training, such as runner=random.
        fps: frames, that is steps, shown in a second.
        modules: modules to import first, as they register the run's env; a checkpoint alone imports none.
    """
    import_modules(modules)
    if out is None:
        out = Path(run) / "video.mp4" if Path(run).is_dir() else Path(run).with_suffix(".mp4")
    policy_map = {role: str(name) for role, name in parse_settings(policy, "--policy").items()}
    if worlds < 1:
        raise ParameterError(f"--worlds must be at least 1, got {worlds}.")
    # play() counts its episodes up from its seed.
    seeds = range(seed, seed + worlds * episodes, episodes)
    games = [play(run, episodes, policy_map, deterministic, seed=s, device=device) for s in seeds]
    frames = itertools.islice(draw(run, side_by_side(games), worlds, device), max_frames)
    print(f"video: {write_video(frames, out, fps)}")


def side_by_side(games: Sequence[Iterator[State]]) -> Iterator[State]:
    """Yield the states of all games at a time, stacked along a new first axis.

    Args:
        games: states of one world each; one that has ended stands still until all have.
    """
    states = [next(game) for game in games]
    running = True
    while running:
        yield {name: np.stack([state[name] for state in states]) for name in states[0]}
        following = [next(game, None) for game in games]
        running = any(state is not None for state in following)
        states = [old if new is None else new for old, new in zip(states, following, strict=True)]


def draw(run: str | Path, states: Iterator[State], worlds: int, device: str) -> Iterator[np.ndarray]:
    """Yield a frame, uint8 (H, W, 3), for each state of some worlds of the run's env.

    Args:
        run: the run's folder, or a checkpoint file.
        states: states with the leading axis worlds.
        worlds: length of that axis.
        device: where the states come from; nothing is computed there.
    """
    config = dataclasses.replace(saved_config(run, load_checkpoint(run)), device=device)
    with contextlib.closing(make_env(config, num_worlds=1)) as env:  # for its resolved parameters
        renderers = WorldRenderers(env.env_spec, env.params, worlds)
    for state in states:
        yield tile(renderers.frames(state))
