"""Videos of worlds in which policies act."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_vecenv.render.style import make_style
from gpu_vecenv.render.video import write_video
from gpu_vecenv.render.worlds import MAX_TILES, WorldRenderers
from gpu_vecenv.train.config import ResolvedConfig, TrainConfig
from gpu_vecenv.train.config.checks import LONG_COUNT, check_fields, count, integer
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.runner.beside_random import beside_random as frames_beside_random
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import game_of, play
from gpu_vecenv.train.runner.measure import step_limit
from gpu_vecenv.train.runner.opponents import Opponent
from gpu_vecenv.train.storage.policy_map import role_of
from gpu_vecenv.vector.inputs.seeding import MAX_SEED

State = dict[str, np.ndarray]
Played = dict[tuple[bool, int], float]
"""Episodes played by each world: whether the roles that learn act at random, and its seed, to the number."""

MAX_FPS = 1_000

FRAMES_WITHOUT_END = 1_000
"""Most frames of an episode without a time limit, by default."""


class Film(NamedTuple):
    """A video that was written."""

    path: Path
    """The file."""
    cut: int | None
    """Number of frames after which it was cut, because episodes have no time limit; None if it was not."""


@dataclass(frozen=True)
class FilmOptions:
    """Options of a video."""

    episodes: int = 1
    """Episodes of each world, one after the other."""
    worlds: int = 1
    """Worlds, side by side; a finished world keeps its last picture until all are finished."""
    max_frames: int | None = None
    """Largest number of frames. None: all steps, and 1,000 an episode without a time limit."""
    seed: int = 1
    """Seed of worlds and sampling."""
    deterministic: bool = False
    """Take the likeliest actions instead of draws."""
    beside_random: bool = False
    """Show the same worlds twice: with random actions of the roles that learn on the left."""
    fps: int = 30
    """Frames in a second; each step is a frame."""
    theme: str = "dark"
    """Colours of the video, ``dark`` or ``light``."""
    scale: float = 1.0
    """Factor on width and height, 0.1 to 8."""

    def __post_init__(self) -> None:
        """Check ranges."""
        check_fields(self, {
            "episodes": LONG_COUNT, "worlds": count(MAX_TILES), "fps": count(MAX_FPS),
            "max_frames": count(sys.maxsize).or_none(),  # islice() takes no more
        })  # fmt: skip
        check_fields(self, {"seed": integer(0, MAX_SEED + 1 - self.worlds * self.episodes)})


def watch(
    target: str | Path | TrainConfig | None,
    out: str | Path | None = None,
    policy_map: Mapping[str, str] | None = None,
    opponents: Mapping[str, Opponent] | None = None,
    progress: bool = False,
    **options: Any,
) -> Path:
    """Write a video of worlds in which policies act, and return its path.

    Args:
        target: a run's folder, a checkpoint file, a config, or None, as in ``evaluate()``.
        out: video to write, ``.mp4`` or ``.gif``. None: ``watch.mp4`` in the run's folder, or beside a checkpoint file.
        policy_map: see ``evaluate()``.
        opponents: see ``evaluate()``.
        progress: show the progress on standard error.
        **options: fields of ``FilmOptions``, such as ``worlds`` and ``fps``, and config fields to change, see ``evaluate()``.

    Raises:
        ConfigError: an option is out of range, or no ``out`` without a run.
        CheckpointError, PolicyMapError, UnfinishedError: see ``play()``.
        ParameterError: the env has no renderer, or a state cannot be drawn.
        VideoError, MissingExtraError, OSError: the video cannot be written.
    """
    names = [field.name for field in fields(FilmOptions)]
    of_film = FilmOptions(**{name: value for name, value in options.items() if name in names})
    changes = {name: value for name, value in options.items() if name not in names}
    return film(target, out, policy_map, opponents, progress, of_film, changes).path


def film(
    target: str | Path | TrainConfig | None,
    out: str | Path | None,
    policy_map: Mapping[str, str] | None,
    opponents: Mapping[str, Opponent] | None,
    progress: bool,
    options: FilmOptions,
    changes: Mapping[str, Any],
) -> Film:
    """Write a video; see ``watch()``, also for errors."""
    if options.beside_random and target is None:
        raise ConfigError("beside_random: expected a run, whose roles that learn act at random on the left, got none")
    path, style = _place(target, out), make_style(options.theme, options.scale, ("theme", "scale"))
    config = game_of(target, policy_map, opponents, changes).config
    max_frames, episodes, worlds = options.max_frames, options.episodes, options.worlds
    with contextlib.closing(make_env(config, num_worlds=1)) as env:
        endless = max_frames is None and math.isinf(step_limit(env))
    max_frames = FRAMES_WITHOUT_END * episodes if endless else max_frames
    # play() gives episode k the seed + k. The step of the range keeps the seeds of two worlds apart.
    seeds = range(options.seed, options.seed + worlds * episodes, episodes)
    played: Played = {}
    of_play = {"deterministic": options.deterministic, "max_steps": max_frames, **changes}
    states = functools.partial(_states, target, episodes, seeds, policy_map or {}, played, opponents, of_play)
    make_frames = frames_beside_random if options.beside_random else _frames
    frames = itertools.islice(make_frames(config, states, worlds, style), max_frames)
    with Progress(sys.stderr, not progress) as display:
        write_video(with_progress(display, frames, played, episodes, max_frames), path, options.fps)
    return Film(path, max_frames if endless and min(played.values()) < episodes else None)


def _place(target: str | Path | TrainConfig | None, out: str | Path | None) -> Path:
    """Return the video's file: by default in the run's folder, or beside a checkpoint file."""
    if out is not None:
        if Path(out).is_dir():
            raise ConfigError(f"out: expected a file to write, got the folder {out}")
        return Path(out)
    if target is None or isinstance(target, TrainConfig):
        raise ConfigError("out: expected a video to write, such as watch.mp4, without the folder of a run, got None")
    run = Path(target)
    return run / "watch.mp4" if run.is_dir() else run.with_suffix(".mp4")


def _states(
    target: str | Path | TrainConfig | None,
    episodes: int,
    seeds: Sequence[int],
    policy_map: Mapping[str, str],
    played: Played,
    opponents: Mapping[str, Opponent] | None,
    options: Mapping[str, Any],
    random: Sequence[str] = (),
) -> Iterator[State]:
    """Return the states of a world for each seed, with random actions of some roles; ``played`` gets its number of episodes."""
    policies = {key: value for key, value in policy_map.items() if role_of(key) not in random} | dict.fromkeys(random, "random")
    opponents = {key: value for key, value in (opponents or {}).items() if role_of(key) not in random}
    keys = [(bool(random), seed) for seed in seeds]
    played.update(dict.fromkeys(keys, 0.0))
    games = []
    for key in keys:
        count = functools.partial(played.__setitem__, key)
        games.append(play(target, episodes, policies, on_step=count, opponents=opponents, seed=key[1], **options))
    return stacked(games)


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


def _frames(
    config: ResolvedConfig, states: Callable[[], Iterator[State]], worlds: int, style: Any
) -> Iterator[np.ndarray]:
    """Yield a frame, uint8 (H, W, 3), for each state of some worlds of an env with some options."""
    with contextlib.closing(make_env(config, num_worlds=1)) as env:  # for its resolved parameters
        renderers = WorldRenderers(env.env_spec, env.params, worlds, style)
    for state in states():
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
    for number, frame in enumerate(frames, start=1):
        yield frame
        fraction = max(min(played.values()) / episodes, number / (max_frames or math.inf))
        ended, total = sum(map(int, played.values())), episodes * len(played)
        progress.show(fraction, f"{number:,} frames  {ended:,} of {total:,} episodes  {progress.rate(number):,.1f} frames/s")
