"""The command ``watch``: a video of a run's policies."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from gpu_vecenv.cli import compare
from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings, require_within
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.style import Style, make_style
from gpu_vecenv.render.video import write_video
from gpu_vecenv.render.worlds import MAX_TILES, WorldRenderers
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.runner.build import import_modules, make_env
from gpu_vecenv.train.runner.evaluation import play
from gpu_vecenv.train.runner.measure import step_limit
from gpu_vecenv.vector.inputs.seeding import MAX_SEED

State = dict[str, np.ndarray]
Played = dict[tuple[bool, int], float]
"""Episodes played by each world: whether the roles that learn act at random, and its seed, to the number."""

MAX_FPS = 1_000

MAX_FRAMES = sys.maxsize
"""``itertools.islice()`` takes no more."""

FRAMES_WITHOUT_END = 1_000
"""Most frames of an episode without a time limit, by default."""


def watch(
    run: tyro.conf.Positional[str],
    out: Annotated[Path | None, help_option("watch.mp4 in the run's folder", "FILE")] = None,
    episodes: int = 1,
    worlds: int = 1,
    max_frames: Annotated[int | None, help_option("all steps; 1,000 an episode without a time limit", "INT")] = None,
    seed: int = 1,
    device: str = "auto",
    deterministic: bool = False,
    beside_random: bool = False,
    policy: Annotated[Settings, help_option("as in training", "ROLE=NAME ...")] = (),
    fps: int = 30,
    theme: Literal["dark", "light"] = "dark",
    scale: float = 1.0,
    threads: Annotated[int | None, help_option("the run's", "INT")] = None,
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
) -> None:
    """Write a video of worlds in which the policies of a run act.

    Example: gpu-vecenv watch runs/tag --worlds 4 --out tag.gif

    Args:
        run: the run's folder, or a checkpoint file.
        out: video to write, .mp4 or .gif.
        episodes: number of episodes of each world, one after the other.
        worlds: number of worlds, side by side; a finished world keeps its last picture until all are finished.
        max_frames: largest number of frames.
        seed: seed of worlds and sampling.
        device: auto, cpu or cuda:0.
        deterministic: take the likeliest actions instead of draws.
        beside_random: show the same worlds twice: with random actions of the roles that learn on the left, and trained on the
            right.
        policy: roles with another policy than in training, such as runner=random.
        fps: frames in a second; each step is a frame.
        theme: colours of the video.
        scale: factor on the width and height of the video, 0.1 to 8.
        threads: CPU threads of torch.
        modules: modules that register the run's env and networks, to import first; a checkpoint alone imports none.
    """
    import_modules(modules)
    out = _beside(Path(run)) if out is None else out
    policy_map = {role: str(name) for role, name in parse_settings(policy, "--policy").items()}
    _require_options(out, episodes, worlds, max_frames, seed, fps)
    style = make_style(theme, scale, ("--theme", "--scale"))
    endless = max_frames is None and not _has_time_limit(run, device)
    max_frames = FRAMES_WITHOUT_END * episodes if endless else max_frames
    # play() gives episode k the seed + k. The step of the range keeps the seeds of two worlds apart.
    seeds = range(seed, seed + worlds * episodes, episodes)
    played: Played = {}
    options: dict[str, Any] = {"deterministic": deterministic, "max_steps": max_frames, "device": device}
    options |= {} if threads is None else {"threads": threads}
    states = functools.partial(_states, run, episodes, seeds, policy_map, played, options)
    sides = functools.partial(compare.beside_random, run, states) if beside_random else functools.partial(draw, run, states())
    frames = itertools.islice(sides(worlds, device, style), max_frames)
    with Progress(sys.stderr) as progress:
        path = write_video(with_progress(progress, frames, played, episodes, max_frames), out, fps)
    cut = endless and min(played.values()) < episodes
    print(f"video: {path}{f', cut after {max_frames:,} frames: set another number by --max-frames' if cut else ''}")


def _beside(run: Path) -> Path:
    """Return the video's place: in the run's folder, or beside a checkpoint file."""
    return run / "watch.mp4" if run.is_dir() else run.with_suffix(".mp4")


def _require_options(out: Path, episodes: int, worlds: int, max_frames: int | None, seed: int, fps: int) -> None:
    """Raise ParameterError for an option out of its range."""
    require_within("--episodes", episodes, 1)
    require_within("--worlds", worlds, 1, MAX_TILES)
    require_within("--fps", fps, 1, MAX_FPS)
    require_within("--seed", seed, 0, MAX_SEED + 1 - worlds * episodes)
    if out.is_dir():
        raise ParameterError(f"--out must be a file to write, got the folder {out}.")
    if max_frames is not None:
        require_within("--max-frames", max_frames, 1, MAX_FRAMES)


def _states(
    run: str,
    episodes: int,
    seeds: Sequence[int],
    policy_map: Mapping[str, str],
    played: Played,
    options: Mapping[str, Any],
    random: Sequence[str] = (),
) -> Iterator[State]:
    """Return the states of a world for each seed, with random actions of some roles; ``played`` gets its number of episodes."""
    policies = {**policy_map, **dict.fromkeys(random, "random")}
    keys = [(bool(random), seed) for seed in seeds]
    played.update(dict.fromkeys(keys, 0.0))
    count = played.__setitem__
    return stacked([play(run, episodes, policies, on_step=functools.partial(count, key), seed=key[1], **options) for key in keys])


def _has_time_limit(run: str | Path, device: str) -> bool:
    """True if episodes of the run's env have a time limit."""
    config = dataclasses.replace(saved_config(run, load_checkpoint(run)), device=device)
    with contextlib.closing(make_env(config, num_worlds=1)) as env:
        return step_limit(env) < math.inf


def stacked(games: Sequence[Iterator[State]]) -> Iterator[State]:
    """Yield the states of all worlds, stacked along a new first axis.

    Args:
        games: an iterator of states for each world; the last state of a world is repeated until all iterators have ended.
    """
    states = [next(game) for game in games]
    running = True
    while running:
        yield {name: np.stack([state[name] for state in states]) for name in states[0]}
        following = [next(game, None) for game in games]
        running = any(state is not None for state in following)
        states = [old if new is None else new for old, new in zip(states, following, strict=True)]


def draw(run: str | Path, states: Iterator[State], worlds: int, device: str, style: Style) -> Iterator[np.ndarray]:
    """Yield a frame, uint8 (H, W, 3), for each state of some worlds of the run's env.

    Args:
        run: the run's folder, or a checkpoint file.
        states: states with the leading axis worlds.
        worlds: length of that axis.
        device: device of the env that is made to read the parameters.
        style: colours and scale.
    """
    config = dataclasses.replace(saved_config(run, load_checkpoint(run)), device=device)
    with contextlib.closing(make_env(config, num_worlds=1)) as env:  # for its resolved parameters
        renderers = WorldRenderers(env.env_spec, env.params, worlds, style)
    for state in states:
        yield renderers.picture(state)


def with_progress(
    progress: Progress, frames: Iterator[np.ndarray], played: Mapping[Any, float], episodes: int, max_frames: int | None
) -> Iterator[np.ndarray]:
    """Yield the frames, and show the progress.

    Args:
        progress: the display.
        frames: frames of the video.
        played: episodes that each world has played so far.
        episodes: episodes that each world plays in all.
        max_frames: largest number of frames.
    """
    for count, frame in enumerate(frames, start=1):
        yield frame
        fraction = max(min(played.values()) / episodes, count / (max_frames or math.inf))
        ended, total = sum(map(int, played.values())), episodes * len(played)
        progress.show(fraction, f"{count:,} frames  {ended:,} of {total:,} episodes  {progress.rate(count):,.1f} frames/s")
