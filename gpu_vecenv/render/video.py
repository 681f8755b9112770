"""Writes frames to an mp4 or gif file."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import numpy as np

from gpu_vecenv.atomic_file import DISK_REFUSALS, atomic_file
from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, ShapeError, VideoError
from gpu_vecenv.render.canvas import import_pillow
from gpu_vecenv.spec.given import abbreviated, real_number


def write_video(frames: Iterable[np.ndarray], path: str | Path, fps: int = 30) -> Path:
    """Write a video; `path` either holds the whole video afterwards, safely on disk, or is left as it was.

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
        VideoError: The encoder of an mp4 failed or was killed.
        OSError: The disk refused.
    """
    path = Path(path)
    writers = {".mp4": _write_mp4, ".gif": _write_gif}
    if path.suffix.lower() not in writers:
        raise ParameterError(f"a video's name must end in .mp4 or .gif; got {path.name!r}")
    rate = real_number(fps)
    if rate is None or not 0.01 <= rate <= 1000:
        raise ParameterError(f"fps must be a number from 0.01 to 1000; got {abbreviated(fps)}")
    checked = _checked(frames)
    first = next(checked, None)
    if first is None:
        raise ParameterError(f"there are no frames to write to {path}")

    path.parent.mkdir(parents=True, exist_ok=True)
    writers[path.suffix.lower()](itertools.chain([first], checked), path, fps)
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

        program = imageio_ffmpeg.get_ffmpeg_exe()
    except ImportError as error:
        message = 'writing an mp4 needs imageio-ffmpeg: pip install "gpu-vecenv[render]"'
        raise MissingExtraError(message) from error
    except RuntimeError as error:  # no program in the package, nor on this machine
        raise MissingExtraError(f"writing an mp4 needs ffmpeg: {error}") from error
    first = _even(next(frames))
    # Without xerror, versions before 5 end with status 0 though the end of a file could not be written.
    options = ["-loglevel", "error", "-xerror", "-y"]
    options += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{first.shape[1]}x{first.shape[0]}", "-r", str(fps), "-i", "-"]
    # Flat colours and thin lines: low crf costs little. faststart lets a browser play while it loads.
    options += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-preset", "veryfast", "-movflags", "+faststart"]
    with atomic_file(path) as unfinished:
        command = [program, *options, f"file:{unfinished}"]
        _encode(command, itertools.chain([first], map(_even, frames)), path)


def _encode(command: list[str], frames: Iterator[np.ndarray], path: Path) -> None:
    """Give frames to an encoder; ``imageio_ffmpeg.write_frames()`` does not tell how the encoder ended.

    Args:
        command: The encoder, which reads frames from its standard input.
        frames: Contiguous uint8 arrays.
        path: The video's name, for the error's text.

    Raises:
        VideoError: The encoder did not take all frames, or did not succeed.
    """
    # Its words are kept in memory: a disk may be full, and a pipe that nobody reads would stop it.
    with open(os.memfd_create("ffmpeg"), "w+b") as log:
        # In a process group of its own it does not get the terminal's Ctrl-C, after which the caller may go on.
        with subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stderr=log, process_group=0) as encoder:
            pipe = cast(io.FileIO, encoder.stdin)
            try:
                whole = all(_taken(pipe, frame) for frame in frames)
                pipe.close()
                encoder.wait()
            except BaseException:
                encoder.kill()
                raise
        log.seek(0)
        words = "; ".join(log.read().decode(errors="replace").splitlines())
    if whole and encoder.returncode == 0:
        return
    end = f"signal {-encoder.returncode}" if encoder.returncode < 0 else f"exit status {encoder.returncode}"
    for number in DISK_REFUSALS:
        if os.strerror(number) in words:
            raise VideoError(number, f"{os.strerror(number)}, ffmpeg ended with {end}: {words}", str(path))
    raise VideoError(f"{path}: expected ffmpeg to write all frames, got {end}: {words or 'no message'}")


def _taken(pipe: io.FileIO, frame: np.ndarray) -> bool:
    """Write a frame; False if nobody reads any more."""
    rest = frame.reshape(-1).data
    try:
        while rest:
            rest = rest[pipe.write(rest) :]
    except BrokenPipeError:
        return False
    return True


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
    with atomic_file(path) as unfinished:
        first.save(unfinished, save_all=True, append_images=images, duration=duration, loop=0)
