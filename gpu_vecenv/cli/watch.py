"""The command ``watch``: a video of a run's policies, or the live page of a run in progress."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gpu_vecenv.cli.key_value import Settings, help_option, require_within
from gpu_vecenv.cli.who_plays import who_plays
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.style import make_style
from gpu_vecenv.render.worlds import MAX_TILES
from gpu_vecenv.train.run_folder.live_file import live_address
from gpu_vecenv.train.runner.build import import_modules
from gpu_vecenv.train.runner.watch import MAX_FPS, FilmOptions, film
from gpu_vecenv.vector.inputs.seeding import MAX_SEED


def watch(
    run: tyro.conf.Positional[Annotated[str | None, help_option("policies of other runs alone", "[RUN]")]] = None,
    out: Annotated[Path | None, help_option("watch.mp4 in the run's folder", "FILE")] = None,
    episodes: int = 1,
    worlds: int = 1,
    max_frames: Annotated[int | None, help_option("all steps; 1,000 an episode without a time limit", "INT")] = None,
    seed: int = 1,
    device: str = "auto",
    deterministic: bool = False,
    beside_random: bool = False,
    policy: Annotated[Settings, help_option("as in training", "ROLE=WHO ...")] = (),
    env: Annotated[Settings, help_option("as in training", "KEY=VALUE ...")] = (),
    fps: int = 30,
    theme: Literal["dark", "light"] = "dark",
    scale: float = 1.0,
    threads: Annotated[int | None, help_option("the run's", "INT")] = None,
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
    live: bool = False,
) -> None:
    """Write a video of worlds in which the policies of a run, or of several runs, act.

    Example: gpu-vecenv watch runs/tag --worlds 4 --out tag.gif

    Args:
        run: the run's folder, a checkpoint file, or an env id.
        out: video to write, .mp4 or .gif.
        episodes: number of episodes of each world, one after the other.
        worlds: number of worlds, side by side; a finished world keeps its last picture until all are finished.
        max_frames: largest number of frames.
        seed: seed of worlds and sampling.
        device: auto, cpu or cuda:0.
        deterministic: take the likeliest actions instead of draws.
        beside_random: show the same worlds twice: with random actions of the roles that learn on the left, and trained on the
            right.
        policy: roles with another policy than in training; WHO is random, a scripted policy of the env such as chase, a policy of
            the run, or FOLDER[:POLICY][@best|@newest].
        env: parameters of the env that differ from those of the run.
        fps: frames in a second; each step is a frame.
        theme: colours of the video.
        scale: factor on the width and height of the video, 0.1 to 8.
        threads: CPU threads of torch.
        modules: modules that register the run's env and networks, to import first; a checkpoint alone imports none.
        live: print the address of the page that shows worlds of the run while it goes on; it was started with train --live.
    """
    if live:
        return _print_live(dict(locals()))
    import_modules(modules)
    _require_options(out, episodes, worlds, max_frames, seed, fps)
    make_style(theme, scale, ("--theme", "--scale"))
    target, policy_map, changes = who_plays(run, policy, env, threads, device)
    options = FilmOptions(episodes, worlds, max_frames, seed, deterministic, beside_random, fps, theme, scale)
    path, cut = film(target, out, policy_map, None, True, options, changes)
    print(f"video: {path}{f', cut after {cut:,} frames: set another number by --max-frames' if cut else ''}")


def _print_live(arguments: Mapping[str, object]) -> None:
    """Print the address of the live page of a run.

    Raises:
        ParameterError: the run is not in progress or has no page, or an option of a video is given.
    """
    for name, parameter in inspect.signature(watch).parameters.items():
        if name not in ("run", "live") and arguments[name] != parameter.default:
            option = f"--{name.replace('_', '-')}"
            raise ParameterError(f"--live: expected no option of a video, which it writes none of, got {option}.")
    if arguments["run"] is None:
        raise ParameterError("--live: expected the folder of a run in progress, got none.")
    print(f"live: {live_address(Path(str(arguments['run'])))}")


def _require_options(out: Path | None, episodes: int, worlds: int, max_frames: int | None, seed: int, fps: int) -> None:
    """Raise ParameterError for an option out of its range, by its name on the command line."""
    require_within("--episodes", episodes, 1)
    require_within("--worlds", worlds, 1, MAX_TILES)
    require_within("--fps", fps, 1, MAX_FPS)
    require_within("--seed", seed, 0, MAX_SEED + 1 - worlds * episodes)
    if out is not None and out.is_dir():
        raise ParameterError(f"--out must be a file to write, got the folder {out}.")
    if max_frames is not None:
        require_within("--max-frames", max_frames, 1, sys.maxsize)
