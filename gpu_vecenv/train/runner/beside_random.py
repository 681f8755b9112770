"""Frames of random and trained play side by side, from the same starts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gpu_vecenv.render.side_by_side import side_by_side
from gpu_vecenv.render.style import Style
from gpu_vecenv.render.worlds import WorldRenderers, tile
from gpu_vecenv.train.config import ResolvedConfig
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.matches import roles_that_learn

State = dict[str, np.ndarray]


def beside_random(
    config: ResolvedConfig, states: Callable[[list[str]], Iterator[State]], worlds: int, style: Style
) -> Iterator[np.ndarray]:
    """Yield frames, uint8 (H, W, 3), with random play on the left and trained play on the right.

    Args:
        config: options of the env and of the run whose roles learn.
        states: function that plays worlds in which the given roles act at random, and yields states with the leading axis worlds.
        worlds: length of that axis.
        style: colours and scale.
    """
    with contextlib.closing(make_env(config, num_worlds=1)) as env:
        learning, _ = roles_that_learn(env, config)
        left, right = (WorldRenderers(env.env_spec, env.params, worlds, style) for _ in range(2))

    def frames(renderers: WorldRenderers, random: list[str]) -> Iterator[np.ndarray]:
        for state in states(random):
            yield tile(renderers.scenes(state), style=style)

    yield from side_by_side(frames(left, learning), frames(right, []), titles(learning), left.legend, style)


def titles(learning: Sequence[str]) -> tuple[str, str]:
    """Return the titles of both sides for the roles that learn."""
    return ("random play", "after training") if len(learning) < 2 else ("all roles at random", "all roles trained")
