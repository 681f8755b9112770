"""Writes frames to an mp4 or gif file."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, ShapeError
from gpu_vecenv.render import import_pillow


def write_video(frames: Iterable[np.ndarray], path: str | Path, fps: int = 30) -> Path:
    """Write a video; `path` either holds the whole video afterwards or is left as it was.

    Frames are consumed one at a time, so a generator of any length needs the memory of one frame. In an mp4
    an odd width or height grows by one repeated line, because the codec needs even ones.

    Args:
        frames: Pictures, uint8 of one shape (H, W, 3).
        path: File to write, ending in .mp4 (H.264) or .gif. Missing folders are made.
        fps: Frames shown in a second. A gif counts in hundredths of a second, so it shows at most 50.

    Returns:
        The path written.

    Raises:
        ParameterError: The ending is another one, `fps` is not positive, or there are no frames.
        ArrayTypeError: A frame is not uint8.
        ShapeError: A frame's shape is not (H, W, 3), or not that of the frames before it.
        MissingExtraError: A package that writes videos is not installed.
    """
    path = Path(path)
    writers = {".mp4": _write_mp4, ".gif": _write_gif}
    if path.suffix.lower() not in writers:
        raise ParameterError(f"a video's name must end in .mp4 or .gif; got {path.name!r}")
    if fps <= 0:
        raise ParameterError(f"fps must be positive; got {fps}")
    checked = _checked(frames)
    first = next(checked, None)
    if first is None:
        raise ParameterError(f"there are no frames to write to {path}")

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".video-") as folder:
        unfinished = Path(folder) / path.name.lower()
        writers[path.suffix.lower()](itertools.chain([first], checked), unfinished, fps)
        os.replace(unfinished, path)
    return path


def _checked(frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    shape = None
    for k, frame in enumerate(frames):
        if frame.dtype != np.uint8:
            raise ArrayTypeError(f"frame {k} must be uint8; got {frame.dtype}")
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.size == 0:
            raise ShapeError(f"frame {k} must have shape (H, W, 3); got {frame.shape}")
        if shape not in (None, frame.shape):
            raise ShapeError(f"frame {k} has shape {frame.shape}; the frames before it have {shape}")
        shape = frame.shape
        yield frame


def _write_mp4(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        message = 'writing an mp4 needs imageio-ffmpeg: pip install "gpu-vecenv[render]"'
        raise MissingExtraError(message) from error
    first = _even(next(frames))
    writer = imageio_ffmpeg.write_frames(
        str(path),
        size=(first.shape[1], first.shape[0]),
        fps=fps,
        codec="libx264",
        quality=None,
        macro_block_size=1,  # sizes are even already
        # Flat colours and thin lines: low crf costs little. faststart lets a browser play while it loads.
        output_params=["-crf", "18", "-preset", "veryfast", "-movflags", "+faststart"],
        ffmpeg_log_level="error",
    )
    writer.send(None)
    try:
        writer.send(first)
        for frame in frames:
            writer.send(_even(frame))
    finally:
        writer.close()


def _even(frame: np.ndarray) -> np.ndarray:
    height, width, _ = frame.shape
    return np.ascontiguousarray(np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge"))


def _write_gif(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    image = import_pillow().Image
    # The octree is seven times as fast as Pillow's default choice of colours and as good for flat ones.
    tree, plain = image.Quantize.FASTOCTREE, image.Dither.NONE
    images = (image.fromarray(frame).quantize(256, tree, dither=plain) for frame in frames)
    first = next(images)
    duration = max(20, round(100 / fps) * 10)
    first.save(path, save_all=True, append_images=images, duration=duration, loop=0)
