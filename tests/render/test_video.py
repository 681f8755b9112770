"""Videos, read back with imageio."""

import sys

import imageio.v3 as imageio
import numpy as np
import pytest

from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, ShapeError
from gpu_vecenv.video import write_video


def blank(*shape):
    return np.zeros(shape, np.uint8)


def make_frames(count=10, height=64, width=96):
    """Return pictures of a bright block that moves right over a dark ground."""
    frames = np.full((count, height, width, 3), (20, 30, 50), np.uint8)
    for k in range(count):
        frames[k, 16:48, 4 * k : 4 * k + 32] = (230, 120, 20)
    return frames


@pytest.mark.parametrize("ending", [".mp4", ".gif", ".MP4"])
def test_round_trip(tmp_path, ending):
    frames = make_frames()
    path = write_video(iter(frames), tmp_path / "deep" / f"film{ending}", fps=20)
    read = imageio.imread(path, index=None)[..., :3]
    assert read.shape == frames.shape
    # The codec halves the resolution of colour, so edges differ; inside the block little does.
    assert np.abs(read.astype(int) - frames).mean() < 6
    for k in range(10):
        inside = read[k, 24:40, 4 * k + 8 : 4 * k + 24].reshape(-1, 3).mean(axis=0)
        np.testing.assert_allclose(inside, (230, 120, 20), atol=12)


def test_frame_rate(tmp_path):
    path = write_video(make_frames(), tmp_path / "film.mp4", fps=25)
    assert imageio.immeta(path)["fps"] == pytest.approx(25)


def test_gif_repeats_and_keeps_its_pace(tmp_path):
    meta = imageio.immeta(write_video(make_frames(), tmp_path / "film.gif", fps=20))
    assert meta["duration"] == 50
    assert meta["loop"] == 0


def test_odd_sizes_grow_by_a_line(tmp_path):
    path = write_video(make_frames(height=63, width=95), tmp_path / "film.mp4")
    assert imageio.imread(path, index=None).shape == (10, 64, 96, 3)


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "film.mp4"
    path.write_bytes(b"old")

    def frames():
        yield from make_frames(3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_video(frames(), path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["film.mp4"]


def test_overwrites(tmp_path):
    path = tmp_path / "film.mp4"
    path.write_bytes(b"old")
    write_video(make_frames(), path)
    assert len(imageio.imread(path, index=None)) == 10


@pytest.mark.parametrize(
    ("frames", "error", "message"),
    [
        ([], ParameterError, "no frames"),
        ([np.zeros((4, 4, 3))], ArrayTypeError, "uint8; got float64"),
        ([blank(4, 4)], ShapeError, r"got \(4, 4\)"),
        ([blank(4, 4, 4)], ShapeError, r"got \(4, 4, 4\)"),
        ([blank(4, 4, 3), blank(6, 4, 3)], ShapeError, r"frame 1 has shape \(6, 4, 3\)"),
    ],
)
def test_unfit_frames(tmp_path, frames, error, message):
    with pytest.raises(error, match=message):
        write_video(frames, tmp_path / "film.gif")
    assert list(tmp_path.iterdir()) == []


def test_unknown_ending(tmp_path):
    with pytest.raises(ParameterError, match=r"\.mp4 or \.gif; got 'film\.avi'"):
        write_video(make_frames(), tmp_path / "film.avi")


def test_frame_rate_must_be_positive(tmp_path):
    with pytest.raises(ParameterError, match="fps must be positive; got 0"):
        write_video(make_frames(), tmp_path / "film.mp4", fps=0)


@pytest.mark.parametrize(("ending", "module"), [(".mp4", "imageio_ffmpeg"), (".gif", "PIL")])
def test_missing_package_names_the_extra(tmp_path, monkeypatch, ending, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r'pip install "gpu-vecenv\[render\]"'):
        write_video(make_frames(), tmp_path / f"film{ending}")
    assert list(tmp_path.iterdir()) == []
