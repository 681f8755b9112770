"""The picture of ``slow_motion.py``: worlds on the left, the learning curve and a clock on the right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gpu_vecenv import tile, write_video
from gpu_vecenv.envs.cartpole.render import Renderer
from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.style import DARK

FPS = 25
"""Frames a second, of which each shows every second step."""

WORLD_WIDTH, WORLD_HEIGHT = 288, 172
"""Pixels of a world: those of its renderer times 0.4, without the readings at the bottom."""

SIDE = 376
"""Width of the learning curve."""

LEFT, RIGHT, TOP, BOTTOM = 56, 20, 116, 64
"""Room around the curve."""


def draw(results: dict[str, Any], path: Path) -> None:
    """Write the picture of results, see ``slow_motion.measure()``."""
    write_video(frames(results), path, FPS)


def frames(results: dict[str, Any]) -> Iterator[np.ndarray]:
    """Yield frames, uint8 (H, W, 3)."""
    renderer = Renderer({param.name: param.default for param in SPEC.params} | {"max_episode_steps": results["largest_return"]})
    every = results["played_a_second"] // FPS
    for step in range(0, len(results["states"]), every):
        seconds = step / results["played_a_second"] / results["slower"]
        worlds = [
            _small(renderer.frame({"state": np.array(state[:4]), "t": np.array(state[4])})) for state in results["states"][step]
        ]
        left = tile(worlds, columns=2)
        yield np.hstack((left, curve(results, seconds, left.shape[0])))


def _small(frame: np.ndarray) -> np.ndarray:
    shown = frame[: frame.shape[1] * WORLD_HEIGHT // WORLD_WIDTH]
    return np.asarray(Image.fromarray(shown).resize((WORLD_WIDTH, WORLD_HEIGHT), Image.Resampling.LANCZOS))


def curve(results: dict[str, Any], seconds: float, height: int) -> np.ndarray:
    """Return the learning curve up to a time, uint8 (height, SIDE, 3), with a clock that stands at the end of the training."""
    times, returns, largest = results["times_s"], results["returns"], results["largest_return"]
    ready = [number for number, at in enumerate(times) if at <= seconds]
    canvas = Canvas(SIDE, height)
    machine = results["machine"]
    canvas.text((LEFT, 40), f"{1e3 * min(seconds, times[-1]):.1f} ms", 30)
    pace = "real time" if results["slower"] == 1 else f"{results['slower']:g} times slower"
    canvas.text((SIDE - RIGHT, 40), pace, 18, DARK.muted, "rs")
    steps = (len(ready) - 1) * results["num_envs"] * results["ppo"]["num_steps"]
    canvas.text((LEFT, 68), f"{len(ready) - 1} iterations, {steps / 1e6:.2f} M steps", 16, DARK.muted)
    canvas.text((LEFT, 96), "mean return of an episode", 16, DARK.sky)
    left, right, top, bottom = LEFT, SIDE - RIGHT, TOP, height - BOTTOM
    canvas.rectangle(left, top, right, bottom, DARK.surface)
    for value in range(0, largest + 1, 100):
        y = bottom - (bottom - top) * value / largest
        canvas.line((left, y, right, y), DARK.grid)
        canvas.text((left - 8, y), str(value), 14, DARK.muted, "rm")
    for mark in _marks(1e3 * times[-1]):
        x = left + (right - left) * mark / (1e3 * times[-1])
        canvas.line((x, bottom, x, bottom + 5), DARK.border)
        canvas.text((x, bottom + 20), f"{mark:g}", 14, DARK.muted, "ms")
    canvas.text((right, bottom + 40), "ms of training", 14, DARK.muted, "rs")
    canvas.text((left, bottom + 40), machine.get("gpu", "CPU"), 14, DARK.muted)
    points = [
        (left + (right - left) * times[number] / times[-1], bottom - (bottom - top) * returns[number] / largest)
        for number in ready
    ]
    if len(points) > 1:
        canvas.line(points, DARK.sky, 2.5)
    canvas.disc(points[-1], 4.0, DARK.sky)
    return canvas.to_array()


def _marks(end: float) -> list[float]:
    """Return some round numbers from 0 to ``end``."""
    size = 10.0 ** np.floor(np.log10(end / 2))
    step = next(size * k for k in (1, 2, 5, 10) if end / (size * k) <= 6)
    return [float(x) for x in np.arange(0, end, step)]
