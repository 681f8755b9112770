"""The command ``watch``: a video of trained policies at play."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings, require_within
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.video import write_video
from gpu_vecenv.render.worlds import WorldRenderers, tile
from gpu_vecenv.train.build import import_modules, make_env
from gpu_vecenv.train.checkpoint import load_checkpoint, saved_config
from gpu_vecenv.train.evaluation import play
from gpu_vecenv.train.progress import Progress
from gpu_vecenv.vector.seeding import MAX_SEED

State = dict[str, np.ndarray]

MAX_TILES = 1_000
"""More would leave each a picture of some 40 x 30 pixels."""

MAX_FPS = 1_000


def watch(
    run: tyro.conf.Positional[str],
    out: Annotated[Path | None, help_option("video.mp4 in the run's folder", "FILE")] = None,
    episodes: int = 1,
    worlds: int = 1,
    max_frames: Annotated[int | None, help_option("as many as there are steps", "INT")] = None,
    seed: int = 1,
    device: str = "auto",
    deterministic: bool = False,
    policy: Annotated[Settings, help_option("as in training", "ROLE=NAME ...")] = (),
    fps: int = 30,
    threads: Annotated[int | None, help_option("those of the run", "INT")] = None,
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
) -> None:
    """Write a video of worlds in which the policies of a run act.

    Example: gpu-vecenv watch runs/tag --worlds 4 --out tag.gif

    Args:
        run: the run's folder, or a checkpoint file.
        out: video to write, .mp4 or .gif.
        episodes: episodes to show one after the other.
        worlds: worlds to show side by side; one that is done waits for the others.
        max_frames: frames after which the video ends in any case.
        seed: seed of the worlds and of sampling.
        device: auto, cpu or cuda:0.
        deterministic: take likeliest actions instead of draws.
        policy: roles that act otherwise than in training, such as runner=random.
        fps: frames, that is steps, shown in a second.
        threads: CPU threads of torch.
        modules: modules to import first, as they register the run's env; a checkpoint alone imports none.
    """
    import_modules(modules)
    if out is None:
        out = Path(run) / "video.mp4" if Path(run).is_dir() else Path(run).with_suffix(".mp4")
    policy_map = {role: str(name) for role, name in parse_settings(policy, "--policy").items()}
    require_within("--episodes", episodes, 1)
    require_within("--worlds", worlds, 1, MAX_TILES)
    require_within("--fps", fps, 1, MAX_FPS)
    require_within("--seed", seed, 0, MAX_SEED + 1 - worlds * episodes)
    if out.is_dir():
        raise ParameterError(f"--out must be a file to write, got the folder {out}.")
    if max_frames is not None:
        require_within("--max-frames", max_frames, 1)
    changes = {} if threads is None else {"threads": threads}
    # play() counts its episodes up from its seed.
    seeds = range(seed, seed + worlds * episodes, episodes)
    played = dict.fromkeys(seeds, 0.0)  # episodes of each world
    games = [
        play(run, episodes, policy_map, deterministic, on_step=functools.partial(played.__setitem__, s), seed=s, device=device,
             **changes)
        for s in seeds
    ]  # fmt: skip
    frames = itertools.islice(draw(run, side_by_side(games), worlds, device), max_frames)
    with Progress(sys.stderr) as progress:
        path = write_video(with_progress(progress, frames, played, episodes, max_frames), out, fps)
    print(f"video: {path}")


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


def with_progress(
    progress: Progress, frames: Iterator[np.ndarray], played: Mapping[int, float], episodes: int, max_frames: int | None
) -> Iterator[np.ndarray]:
    """Yield the frames, and show how many were taken.

    Args:
        progress: where it is shown.
        frames: pictures.
        played: episodes that each world has played so far.
        episodes: episodes that each world is to play.
        max_frames: frames after which the video ends in any case.
    """
    for count, frame in enumerate(frames, start=1):
        yield frame
        share = max(min(played.values()) / episodes, count / (max_frames or math.inf))
        ended, total = sum(map(int, played.values())), episodes * len(played)
        progress.show(share, f"{count:,} frames  {ended:,} of {total:,} episodes  {progress.rate(count):,.1f} frames/s")
