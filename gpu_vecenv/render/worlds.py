"""Pictures of worlds. Each world has its own renderer, which stores trails from frame to frame."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import logger

from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.render.canvas import find_renderer, import_pillow
from gpu_vecenv.render.legend import HEIGHT as LEGEND_HEIGHT
from gpu_vecenv.render.legend import Entry, draw_legend
from gpu_vecenv.render.style import DEFAULT_STYLE, Style
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.params import Params

TILED_WIDTH, TILED_HEIGHT = 1920, 1080
"""Maximum size of a picture of many worlds, in pixels at scale 1."""

MAX_TILES = 1_000
"""Most worlds in a picture; with more, each would have fewer than about 40 x 30 pixels."""

GAP = 4
"""Pixels between worlds."""


def warn_without_mode(function: str, name: str) -> None:
    """Warn that ``render()`` draws nothing; ``function`` is Gymnasium's function that made the env ``name``."""
    text = f'render() draws nothing without a render mode: gymnasium.{function}("{name}", render_mode="rgb_array")'
    logger.warn(text, stacklevel=2)  # the line that calls this function


class WorldRenderers:
    """Renderers of all worlds of an env, made at the first picture.

    Args:
        env_spec: Spec of the env; `render.py` beside its kernel has the class `Renderer`.
        params: Resolved parameters of the env.
        num_worlds: Number of worlds.
        style: Colours and scale.
    """

    def __init__(self, env_spec: EnvSpec, params: Params, num_worlds: int, style: Style = DEFAULT_STYLE) -> None:
        self._spec, self._params, self._num_worlds, self.style = env_spec, params, num_worlds, style
        self._first: WorldRenderers | None = None

    @cached_property
    def _renderers(self) -> list[Any]:
        renderer = find_renderer(self._spec.kernel.parent)
        options = {} if self.style == DEFAULT_STYLE else {"style": self.style}
        if options and "style" not in inspect.signature(renderer).parameters:
            raise ParameterError(f"{self._spec.name}: Renderer of its render.py takes no style; expected theme dark and scale 1")
        return [renderer(world_params(self._spec, self._params, world), **options) for world in range(self._num_worlds)]

    def first(self, num_worlds: int) -> WorldRenderers:
        """Return renderers of the first worlds. Those of the last call are kept, with trails, until another number is given."""
        if self._first is None or self._first._num_worlds != num_worlds:
            self._first = WorldRenderers(self._spec, self._params, num_worlds, self.style)
        return self._first

    @property
    def legend(self) -> tuple[Entry, ...]:
        """Names of the shapes in `scenes`; none if the env's renderer has no `legend`."""
        return tuple(getattr(self._renderers[0], "legend", ()))

    def frames(self, state: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Draw one uint8 (H, W, 3) frame a world, from state arrays with the leading axis worlds; later worlds are not drawn.

        Raises:
            ParameterError: a shape lies too far outside the picture, or the renderer cannot draw a NaN or an infinite number.
        """
        return self._draw(state, lambda renderer: renderer.frame)

    def scenes(self, state: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Draw frames without a legend, for a picture that has one; those of `frames` if the env's renderer has no `scene`."""
        return self._draw(state, lambda renderer: getattr(renderer, "scene", renderer.frame))

    def picture(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw all worlds in one picture with one legend, uint8 (H, W, 3); the frame, if there is one world."""
        if self._num_worlds == 1:
            return tile(self.frames(state), style=self.style)
        return tile(self.scenes(state), style=self.style, legend=self.legend)

    def _draw(self, state: Mapping[str, np.ndarray], method: Callable[[Any], Callable[..., np.ndarray]]) -> list[np.ndarray]:
        frames = []
        with np.errstate(over="ignore", invalid="ignore"):  # the canvas refuses what comes of it, if it is a coordinate
            for world, renderer in enumerate(self._renderers):
                fields = {name: array[world] for name, array in state.items()}
                try:
                    frames.append(method(renderer)(fields))
                except (ValueError, ArithmeticError) as error:  # also ParameterError of the canvas
                    del self._renderers  # their trails may hold the numbers that cannot be drawn
                    holds = self._not_finite(fields)
                    if not holds and not isinstance(error, ParameterError):
                        raise
                    text = f"{self._spec.name}: world {world} cannot be drawn: {str(error).removesuffix('.')}"
                    raise ParameterError(f"{text}{holds}.") from error
        return frames

    def _not_finite(self, state: Mapping[str, np.ndarray]) -> str:
        """Return words about the first field of a world that holds a NaN or an infinite number; nothing without one."""
        metrics = {metric.field.name for metric in self._spec.metrics}  # NaN in episodes without a record
        for name, values in state.items():
            wrong = values[~np.isfinite(values)] if name not in metrics else values[:0]
            if wrong.size:
                return f"; {name} holds {wrong[0]}"
        return ""


def world_params(env_spec: EnvSpec, params: Params, world: int) -> Params:
    """Return the parameters of one world: an array with one value a world becomes the value of this world."""
    per_world = {param.name for param in env_spec.params if param.per_world and np.ndim(params[param.name]) == 1}
    return {name: value[world].item() if name in per_world else value for name, value in params.items()}


def tile(
    frames: Sequence[np.ndarray],
    columns: int | None = None,
    style: Style = DEFAULT_STYLE,
    legend: Sequence[Entry] = (),
) -> np.ndarray:
    """Put frames side by side, row by row, in one picture.

    Frames are shrunk, never enlarged, so that the picture fits into 1920 x 1080 pixels, times the style's scale. Its width and
    height are even, because video codecs need that.

    Args:
        frames: One uint8 (H, W, 3) frame a world, all of one shape.
        columns: Frames in a row; by default the number for which frames shrink least.
        style: Colours between frames, and the scale that frames were drawn with.
        legend: Entries of a legend below all frames; none by default.

    Returns:
        The picture, uint8 of shape (H, W, 3).

    Raises:
        ArrayTypeError: A frame is not uint8.
        ShapeError: Frames of different shapes, or not of shape (H, W, 3).
        ParameterError: No frames, `columns` below 1, or so many frames that each would be smaller than a pixel.
        MissingExtraError: Pillow is needed to shrink frames and is not installed.
    """
    check_frames(frames)
    if columns is not None and columns < 1:
        raise ParameterError(f"columns must be at least 1, got {columns}.")
    count, (height, width) = len(frames), frames[0].shape[:2]
    # If several numbers have the same scale, the one with the fewest empty places is chosen, and then the largest.
    candidates = [columns] if columns is not None else range(count, 0, -1)
    limits = int(TILED_HEIGHT * style.scale) - bool(legend) * round(LEGEND_HEIGHT * style.scale), int(TILED_WIDTH * style.scale)
    columns = max(candidates, key=lambda c: (_scale(count, c, height, width, limits), -(-count % c)))
    scale = _scale(count, columns, height, width, limits)
    if scale * min(height, width) < 1:
        raise ParameterError(f"{count} frames in {columns} columns are smaller than a pixel each; give fewer worlds.")
    if scale < 1:
        height, width = int(height * scale), int(width * scale)
        frames = [_shrink(frame, height, width) for frame in frames]
    if count == 1 and not (height % 2 or width % 2 or legend):
        return frames[0].copy()  # it covers the picture
    rows, columns = -(-count // columns), min(columns, count)
    size = (rows * (height + GAP) - GAP, columns * (width + GAP) - GAP)
    picture = np.full((size[0] + size[0] % 2, size[1] + size[1] % 2, 3), style.palette.grid, np.uint8)
    for k, frame in enumerate(frames):
        top, left = k // columns * (height + GAP), k % columns * (width + GAP)
        picture[top : top + height, left : left + width] = frame
    if not legend:
        return picture
    strip = draw_legend(legend, picture.shape[1], style)
    return np.concatenate([picture, strip[len(strip) % 2 :]])


def check_frames(frames: Sequence[np.ndarray]) -> None:
    """Raise an error unless there are frames, all uint8 and of one shape (H, W, 3)."""
    if not len(frames):
        raise ParameterError("expected at least one frame, got none.")
    for frame in frames:
        if frame.dtype != np.uint8:
            raise ArrayTypeError(f"frames must be uint8, got {frame.dtype}.")
        if frame.ndim != 3 or frame.shape[-1] != 3 or frame.shape != frames[0].shape:
            raise ShapeError(f"frames must all have one shape (H, W, 3), got {frames[0].shape} and {frame.shape}.")


def _scale(count: int, columns: int, height: int, width: int, limits: tuple[int, int]) -> float:
    """Factor, at most 1, by which frames fit into `limits` (height, width); 0 or less if the gaps alone fill the picture."""
    rows = -(-count // columns)
    columns = min(columns, count)
    across = (limits[1] - (columns - 1) * GAP) / (columns * width)
    down = (limits[0] - (rows - 1) * GAP) / (rows * height)
    return min(1.0, across, down)


def _shrink(frame: np.ndarray, height: int, width: int) -> np.ndarray:
    image = import_pillow().Image
    return np.asarray(image.fromarray(frame).resize((width, height), image.Resampling.BOX))
