"""Pictures and videos in notebooks: `show()`, and parts of the HTML that an env or a run is shown as."""

from __future__ import annotations

import html
import io
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.errors import MissingExtraError, ParameterError
from gpu_vecenv.render.canvas import import_pillow
from gpu_vecenv.render.video import checked_frames
from gpu_vecenv.spec.validation import abbreviated, real_number

COLOURS, COLOURS_OF_VIDEO = 256, 64
"""Colours of a picture and of a video. Drawings have few, and a palette makes a file a third as large."""

PALETTE_FRAMES = 8
"""Frames of a video that its palette is chosen from."""

PICTURES, CLIPS = (".png", ".jpg", ".jpeg"), (".gif", ".webp")
MAX_EMBEDDED = 16 << 20
"""Largest video in bytes that is stored in the HTML of a run."""


def show(what: str | Path | np.ndarray | Iterable[np.ndarray], fps: float = 10, width: int = 480) -> None:
    """Show a picture or a video in the output of a notebook's cell. The notebook stores it, so it needs no other file.

    Frames become an animated PNG, which is a picture for every program that shows notebooks.

    Example::

        show(tile(env.render()))  # one picture of all worlds
        show(frame for frame in frames)  # a video
        show("runs/tag/video.mp4")

    Args:
        what: a file ending in .mp4, .png, .gif, .webp or .jpg; one frame, uint8 (H, W, 3); or several frames of one shape.
        fps: frames a second; a file keeps its own rate.
        width: largest width in pixels. Wider pictures and frames are shrunk; clips (.mp4, .gif, .webp) are shown at this width.

    Raises:
        MissingExtraError: IPython or Pillow is not installed.
        ParameterError: another ending, `fps` outside 0.1 to 100, `width` outside 16 to 4096, or no frames.
        ArrayTypeError: a frame is not uint8.
        ShapeError: a frame's shape is not (H, W, 3), or differs from that of the first frame.
        OSError: the file cannot be read.
    """
    try:
        from IPython import display
    except ImportError as error:
        raise MissingExtraError('show() needs IPython: pip install "gpu-vecenv[notebook]"') from error
    _require_number("width", width, 16, 4096)
    path = Path(what) if isinstance(what, str | Path) else None
    ending = "" if path is None else path.suffix.lower()
    shown: Any
    if path is not None and ending not in (".mp4", *PICTURES, *CLIPS):
        raise ParameterError(f"show() expects a file ending in .mp4, {', '.join((*PICTURES, *CLIPS))}, got {path.name!r}.")
    if path is not None and ending == ".mp4":
        shown = display.HTML(video_html(path.read_bytes(), width))
    elif path is not None and ending in CLIPS:
        shown = display.Image(path.read_bytes(), format=ending[1:], width=width)
    else:
        frames: Any = pixels(path) if path is not None else what
        shown = display.Image(png([frames] if getattr(frames, "ndim", 0) == 3 else frames, fps, width))
    display.display(shown)


def pixels(path: Path) -> np.ndarray:
    """Return the pixels of a picture's file, uint8 (H, W, 3).

    Raises:
        OSError: the file cannot be read.
    """
    with import_pillow().Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def png(frames: Iterable[np.ndarray], fps: float = 10, width: int = 480) -> bytes:
    """Return one frame as a PNG, or several as an animated PNG that repeats, with a palette of colours.

    Args and errors are those of ``show()``. Frames that are shrunk need the memory of all shrunk frames.
    """
    _require_number("fps", fps, 0.1, 100)
    module = import_pillow().Image
    images = [_shrunk(module.fromarray(frame), width) for frame in checked_frames(frames)]
    if not images:
        raise ParameterError("show() expects at least one frame, got none.")
    # A palette of all frames keeps colours the same from frame to frame, so that unchanged parts are stored once.
    sample = np.vstack([np.asarray(image) for image in images[:: -(-len(images) // PALETTE_FRAMES)]])
    colours = COLOURS if len(images) == 1 else COLOURS_OF_VIDEO
    palette = module.fromarray(sample).quantize(colours, module.Quantize.MEDIANCUT, dither=module.Dither.NONE)
    drawn = [image.quantize(palette=palette, dither=module.Dither.NONE) for image in images]
    file = io.BytesIO()
    if len(drawn) == 1:
        drawn[0].save(file, "PNG", optimize=True)
    else:
        drawn[0].save(file, "PNG", save_all=True, append_images=drawn[1:], duration=round(1000 / fps), loop=0)
    return file.getvalue()


def table_html(rows: Mapping[str, object] | Sequence[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return a table: names and values, or rows of cells below a head. Text is escaped."""
    lines = [*rows.items()] if isinstance(rows, Mapping) else rows
    tops = [_line(head, "th")] if head else []
    return f"<table>{''.join([*tops, *(_line(line, 'td') for line in lines)])}</table>"


def picture_html(content: bytes, width: int) -> str:
    """Return a PNG as HTML that holds it, at most ``width`` pixels wide."""
    return f'<img width="{width}" src="data:image/png;base64,{b64encode(content).decode()}">'


def video_html(content: bytes, width: int) -> str:
    """Return an mp4 as HTML that holds it and repeats it; without sound, because browsers start silent videos alone."""
    source = f"data:video/mp4;base64,{b64encode(content).decode()}"
    return f'<video controls autoplay loop muted playsinline width="{width}" src="{source}"></video>'


def _line(cells: Sequence[object], tag: str) -> str:
    inside = "".join(f'<{tag} style="text-align: left">{html.escape(str(cell))}</{tag}>' for cell in cells)
    return f"<tr>{inside}</tr>"


def _shrunk(image: Any, width: int) -> Any:
    if image.width <= width:
        return image
    return image.resize((width, max(1, round(image.height * width / image.width))), import_pillow().Image.Resampling.BOX)


def _require_number(name: str, value: object, low: float, high: float) -> None:
    number = real_number(value)
    if number is None or not low <= number <= high:
        raise ParameterError(f"{name} must be a number from {low} to {high}, got {abbreviated(value)}.")
