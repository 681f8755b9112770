"""Writer of videos: frames to an mp4 or gif file."""

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
from gpu_vecenv.spec.validation import abbreviated, real_number


def write_video(frames: Iterable[np.ndarray], path: str | Path, fps: int = 30) -> Path:
    """Write a video. Afterwards `path` holds the whole video on disk; after an error it is unchanged.

    Frames are read one at a time, so a generator of any length needs the memory of one frame. The codec of an mp4 needs an even
    width and height, so the last row or column of an odd size is repeated.

    Args:
        frames: Pictures, uint8, all of one shape (H, W, 3).
        path: File to write, ending in .mp4 (H.264) or .gif. Missing folders are made.
        fps: Frames a second. A gif counts time in hundredths of a second and shows at most 50 frames a second.

    Returns:
        The path written.

    Raises:
        ParameterError: Another ending, `fps` outside 0.01 to 1000, or no frames.
        ArrayTypeError: A frame is not uint8.
        ShapeError: A frame's shape is not (H, W, 3), or differs from that of the first frame.
        MissingExtraError: A package that writes videos is not installed.
        VideoError: The encoder of an mp4 failed or was killed.
        OSError: The file could not be written.
    """
    path = Path(path)
    writers = {".mp4": _write_mp4, ".gif": _write_gif}
    if path.suffix.lower() not in writers:
        raise ParameterError(f"a video's name must end in .mp4 or .gif; got {path.name!r}")
    rate = real_number(fps)
    if rate is None or not 0.01 <= rate <= 1000:
        raise ParameterError(f"fps must be a number from 0.01 to 1000; got {abbreviated(fps)}")
    checked = checked_frames(frames)
    first = next(checked, None)
    if first is None:
        raise ParameterError(f"there are no frames to write to {path}")

    path.parent.mkdir(parents=True, exist_ok=True)
    writers[path.suffix.lower()](itertools.chain([first], checked), path, fps)
    return path


def checked_frames(frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the frames; raise ArrayTypeError or ShapeError at one that is not uint8 (H, W, 3) or unlike those before it."""
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
    except RuntimeError as error:  # imageio-ffmpeg finds no ffmpeg
        raise MissingExtraError(f"writing an mp4 needs ffmpeg: {error}") from error
    first = even(next(frames))
    # Without xerror, versions before 5 end with status 0 even if they could not write the end of the file.
    options = ["-loglevel", "error", "-xerror", "-y"]
    options += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{first.shape[1]}x{first.shape[0]}", "-r", str(fps), "-i", "-"]
    # A low crf costs little for flat colours and thin lines. faststart lets a browser play a video while it loads.
    options += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-preset", "veryfast", "-movflags", "+faststart"]
    with atomic_file(path) as unfinished:
        command = [program, *options, f"file:{unfinished}"]
        _encode(command, itertools.chain([first], map(even, frames)), path)


def _encode(command: list[str], frames: Iterator[np.ndarray], path: Path) -> None:
    """Give frames to an encoder, and check its exit status, which ``imageio_ffmpeg.write_frames()`` does not return.

    Args:
        command: Command of the encoder, which reads frames from its standard input.
        frames: Contiguous uint8 arrays.
        path: The video's name, for the error's text.

    Raises:
        VideoError: The encoder did not read all frames, or failed.
    """
    # The encoder's messages go to memory: the disk may be full, and a full pipe would block the encoder.
    with open(os.memfd_create("ffmpeg"), "w+b") as log:
        # In its own process group the encoder gets no Ctrl-C from the terminal, so that the caller may handle it.
        with subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stderr=log, process_group=0) as encoder:
            pipe = cast(io.FileIO, encoder.stdin)
            try:
                all_written = all(_write_frame(pipe, frame) for frame in frames)
                pipe.close()
                encoder.wait()
            except BaseException:
                encoder.kill()
                raise
        log.seek(0)
        messages = "; ".join(log.read().decode(errors="replace").splitlines())
    if all_written and encoder.returncode == 0:
        return
    end = f"signal {-encoder.returncode}" if encoder.returncode < 0 else f"exit status {encoder.returncode}"
    for number in DISK_REFUSALS:
        if os.strerror(number) in messages:
            raise VideoError(number, f"{os.strerror(number)}, ffmpeg ended with {end}: {messages}", str(path))
    raise VideoError(f"{path}: expected ffmpeg to write all frames, got {end}: {messages or 'no message'}")


def _write_frame(pipe: io.FileIO, frame: np.ndarray) -> bool:
    """Write a frame; return False if the encoder has closed the pipe."""
    unwritten = frame.reshape(-1).data
    try:
        while unwritten:
            unwritten = unwritten[pipe.write(unwritten) :]
    except BrokenPipeError:
        return False
    return True


def even(frame: np.ndarray) -> np.ndarray:
    """Return a frame (H, W, 3), contiguous, with an odd last row or column repeated."""
    height, width, _ = frame.shape
    if height % 2 or width % 2:
        frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(frame)


def _write_gif(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    image = import_pillow().Image
    # For flat colours the octree looks as good as Pillow's default method, and it is seven times as fast.
    tree, plain = image.Quantize.FASTOCTREE, image.Dither.NONE
    images = (image.fromarray(frame).quantize(256, tree, dither=plain) for frame in frames)
    first = next(images)
    duration = max(20, round(100 / fps) * 10)
    with atomic_file(path) as unfinished:
        first.save(unfinished, save_all=True, append_images=images, duration=duration, loop=0)
