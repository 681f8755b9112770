"""Pictures and videos in notebooks, read back with Pillow."""

import base64
import builtins
import io

import numpy as np
import pytest
from IPython.display import HTML, Image
from PIL import Image as Pillow
from PIL import ImageSequence

from gpu_vecenv import show, write_video
from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, ShapeError
from gpu_vecenv.render.notebook import picture_html, png, table_html


@pytest.fixture
def shown(monkeypatch):
    """Objects that were displayed."""
    found = []
    monkeypatch.setattr("IPython.display.display", found.append)
    return found


def frames(count=6, height=30, width=40):
    """Frames of a bright block that moves right over a dark background."""
    made = np.full((count, height, width, 3), (20, 30, 50), np.uint8)
    for k in range(count):
        made[k, 8:20, 4 * k : 4 * k + 8] = (230, 120, 20)
    return made


def read(content):
    """Return the frames of a picture, uint8 (T, H, W, 3), and the time of each in milliseconds."""
    with Pillow.open(io.BytesIO(content)) as image:
        assert image.format == "PNG"
        read = [(np.asarray(frame.convert("RGB")), frame.info.get("duration")) for frame in ImageSequence.Iterator(image)]
    return np.stack([frame for frame, _ in read]), [time for _, time in read]


def test_frames_are_shown_as_an_animated_png(shown):
    show(iter(frames()), fps=5)
    (image,) = shown
    assert isinstance(image, Image) and image.format == "png"
    found, times = read(image.data)
    assert found.shape == frames().shape and times == [200] * 6
    assert np.abs(found.astype(int) - frames()).max() <= 4  # a palette may round colours


@pytest.mark.parametrize("kind", [lambda frame: frame, lambda frame: [frame], lambda frame: frame[None]])
def test_one_frame_is_a_picture(shown, kind):
    show(kind(frames()[0]))
    found, times = read(shown[0].data)
    assert found.shape == (1, 30, 40, 3) and times == [None]


def test_wide_frames_are_shrunk_and_narrow_ones_are_not():
    assert read(png(frames(), width=20))[0].shape == (6, 15, 20, 3)
    assert read(png(frames(), width=64))[0].shape == (6, 30, 40, 3)


def test_files_are_shown(shown, tmp_path):
    write_video(frames(), tmp_path / "film.mp4")
    write_video(frames(), tmp_path / "film.gif")
    Pillow.fromarray(frames()[2]).save(tmp_path / "frame.png")
    for name in ("film.mp4", "film.gif", "frame.png"):
        show(tmp_path / name, width=32)
    video, gif, picture = shown
    assert isinstance(video, HTML) and 'width="32"' in video.data
    assert base64.b64encode((tmp_path / "film.mp4").read_bytes()).decode() in video.data
    assert (gif.format, gif.data) == ("gif", (tmp_path / "film.gif").read_bytes())
    assert read(picture.data)[0].shape == (1, 24, 32, 3)


def test_bad_input_is_refused(shown, tmp_path):
    with pytest.raises(ParameterError, match=r"expects a file ending in .mp4, .png, .*, got 'notes.txt'"):
        show("notes.txt")
    with pytest.raises(FileNotFoundError):
        show(tmp_path / "missing.mp4")
    with pytest.raises(ParameterError, match="at least one frame"):
        show([])
    with pytest.raises(ArrayTypeError, match="frame 0 must be uint8"):
        show(np.zeros((4, 4, 3)))
    with pytest.raises(ShapeError, match="frame 1 has shape"):
        show([np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)])
    with pytest.raises(ParameterError, match=r"fps must be a number from 0.1 to 100, got 0"):
        show(frames(), fps=0)
    with pytest.raises(ParameterError, match=r"width must be a number from 16 to 4096, got 'wide'"):
        show(frames(), width="wide")
    assert shown == []


def test_the_error_without_ipython_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == "IPython":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r'pip install "gpu-vecenv\[notebook\]"'):
        show(frames())


def test_html_escapes_text_and_holds_its_picture():
    assert "&lt;b&gt;" in table_html({"name": "<b>"}) and "<b>" not in table_html({"name": "<b>"})
    assert table_html([["1", "2"]], ["a", "b"]).count("<tr>") == 2
    assert base64.b64encode(b"content").decode() in picture_html(b"content", 100)
