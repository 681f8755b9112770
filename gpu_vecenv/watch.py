"""The command ``watch``: a video of trained policies at play."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from gpu_vecenv.render import find_renderer
from gpu_vecenv.train.build import make_env
from gpu_vecenv.train.checkpoint import load_checkpoint, saved_config
from gpu_vecenv.train.commands import Settings, parse_settings
from gpu_vecenv.train.evaluate import play
from gpu_vecenv.video import write_video


def watch(
    run: tyro.conf.Positional[str],
    out: Path | None = None,
    episodes: int = 1,
    max_frames: int | None = None,
    seed: int = 1,
    device: str = "auto",
    deterministic: bool = False,
    policy: Annotated[Settings, tyro.conf.arg(metavar="ROLE=NAME ...")] = (),
    fps: int = 30,
) -> None:
    """Write a video of one world in which the policies of a run act.

    Args:
        run: the run's folder, or a checkpoint file.
        out: video to write, .mp4 or .gif; video.mp4 in the run's folder by default.
        episodes: episodes to show one after the other.
        max_frames: frames after which the video ends in any case.
        seed: seed of the world and of sampling.
        device: auto, cpu or cuda:0.
        deterministic: take likeliest actions instead of draws.
        policy: roles that act otherwise than in training, such as runner=random.
        fps: frames, that is steps, shown in a second.
    """
    if out is None:
        out = Path(run) / "video.mp4" if Path(run).is_dir() else Path(run).with_suffix(".mp4")
    policy_map = {role: str(name) for role, name in parse_settings(policy, "--policy").items()}
    states = play(run, episodes, policy_map, deterministic, seed=seed, device=device)
    frames = itertools.islice(draw(run, states, device), max_frames)
    print(f"video: {write_video(frames, out, fps)}")


def draw(run: str | Path, states: Iterator[dict[str, np.ndarray]], device: str) -> Iterator[np.ndarray]:
    """Yield a frame, uint8 (H, W, 3), for each state of one world of the run's env.

    Args:
        run: the run's folder, or a checkpoint file.
        states: states without a leading axis, as :func:`gpu_vecenv.train.evaluate.play` yields them.
        device: where the states come from; nothing is computed there.
    """
    config = dataclasses.replace(saved_config(run, load_checkpoint(run)), device=device)
    with contextlib.closing(make_env(config, num_worlds=1)) as env:  # for its resolved parameters
        renderer = find_renderer(env.env_spec.kernel.parent)(env.params)
    yield from map(renderer.frame, states)
