"""Videos, read back with imageio."""

import errno
import os
import resource
import signal
import sys

import imageio.v3 as imageio
import imageio_ffmpeg
import numpy as np
import pytest

from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, ShapeError, VideoError
from gpu_vecenv.render.video import write_video
from tests.package.test_atomic_file import assert_untouched

FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()


def blank(*shape):
    return np.zeros(shape, np.uint8)


def make_frames(count=10, height=64, width=96):
    """Return pictures of a bright block that moves right over a dark background."""
    frames = np.full((count, height, width, 3), (20, 30, 50), np.uint8)
    for k in range(count):
        frames[k, 16:48, 4 * k : 4 * k + 32] = (230, 120, 20)
    return frames


@pytest.mark.parametrize("ending", [".mp4", ".gif", ".MP4"])
def test_a_video_shows_its_frames(tmp_path, ending):
    frames = make_frames()
    path = write_video(iter(frames), tmp_path / "deep" / f"film{ending}", fps=20)
    read = imageio.imread(path, index=None)[..., :3]
    assert read.shape == frames.shape
    # The codec halves the resolution of colours, so edges differ; the inside of the block hardly does.
    assert np.abs(read.astype(int) - frames).mean() < 6
    for k in range(10):
        inside = read[k, 24:40, 4 * k + 8 : 4 * k + 24].reshape(-1, 3).mean(axis=0)
        np.testing.assert_allclose(inside, (230, 120, 20), atol=12)


def test_a_video_has_its_frame_rate(tmp_path):
    path = write_video(make_frames(), tmp_path / "film.mp4", fps=25)
    assert imageio.immeta(path)["fps"] == pytest.approx(25)


def test_a_gif_repeats_and_has_its_frame_rate(tmp_path):
    meta = imageio.immeta(write_video(make_frames(), tmp_path / "film.gif", fps=20))
    assert meta["duration"] == 50
    assert meta["loop"] == 0


def test_odd_sizes_are_padded_to_even_ones(tmp_path):
    path = write_video(make_frames(height=63, width=95), tmp_path / "film.mp4")
    assert imageio.imread(path, index=None).shape == (10, 64, 96, 3)


@pytest.fixture
def old(tmp_path):
    """An older file at the path of the video."""
    path = tmp_path / "film.mp4"
    path.write_bytes(b"old")
    return path


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, BrokenPipeError, OSError(errno.ECONNRESET, "lost")])
@pytest.mark.parametrize("ending", [".mp4", ".gif"])
def test_an_error_of_the_frames_leaves_the_old_file_only(old, ending, error):
    old = old.rename(old.with_suffix(ending))

    def frames():
        yield from make_frames(3)
        raise error

    with pytest.raises(type(error) if isinstance(error, OSError) else error) as caught:
        write_video(frames(), old)
    assert not isinstance(caught.value, VideoError)
    assert getattr(caught.value, "filename", None) is None
    assert_untouched(old)


@pytest.fixture
def encoder(tmp_path_factory, monkeypatch):
    """Return a function that replaces the encoder by a shell script; the script's last argument is the file."""
    program = tmp_path_factory.mktemp("encoder") / "ffmpeg"
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(program))

    def replace(script):
        program.write_text(f"#!/bin/bash\nfor file; do :; done; file=${{file#file:}}\n{script}\n")
        program.chmod(0o755)

    return replace


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("head -c 30000 > $file; echo broken >&2; exit 1", "got exit status 1: broken"),
        ("cat > $file; exit 3", "got exit status 3: no message"),
        ("head -c 30000 > $file; exit 0", "expected ffmpeg to write all frames, got exit status 0"),
        ("head -c 30000 > $file; kill -KILL $$", "got signal 9"),
        ("cat > $file; kill -TERM $$", "got signal 15"),
        # More text than a pipe holds.
        ("yes words | head -c 300000 >&2; cat > $file; exit 1", "got exit status 1: words; words"),
    ],
)
def test_an_encoder_that_fails_leaves_the_old_file(old, encoder, script, text):
    encoder(script)
    with pytest.raises(VideoError, match=f"{old}: .*{text}") as caught:
        write_video(make_frames(30), old)
    assert caught.value.errno is None
    assert_untouched(old)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_is_recognised_in_the_encoders_message(old, encoder, number):
    encoder(f"cat > $file; echo Error closing file: {os.strerror(number)} >&2; exit 228")
    with pytest.raises(OSError, match="ffmpeg ended with exit status 228: Error closing file") as caught:
        write_video(make_frames(), old)
    assert (caught.value.errno, caught.value.filename) == (number, str(old))
    assert_untouched(old)


def test_an_encoder_without_the_codec_raises_an_error(old, encoder):
    encoder(f'exec {FFMPEG} "${{@/libx264/libx999}}"')
    with pytest.raises(VideoError, match=f"{old}: .*got exit status .*Unknown encoder 'libx999'"):
        write_video(make_frames(), old)
    assert_untouched(old)


def test_a_missing_encoder_raises_an_error(old, monkeypatch):
    def missing():
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", missing)
    with pytest.raises(MissingExtraError, match="writing an mp4 needs ffmpeg: No ffmpeg exe could be found"):
        write_video(make_frames(), old)
    assert_untouched(old)


@pytest.fixture
def small_files():
    """Make writes beyond byte 4,096 of a file fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("ending", [".mp4", ".gif"])
def test_a_failing_write_leaves_the_old_file(old, small_files, ending):
    old = old.rename(old.with_suffix(ending))
    noise = np.random.default_rng(0).integers(0, 256, (10, 64, 96, 3), np.uint8)
    with pytest.raises(OSError, match=str(old)) as caught:
        write_video(noise, old)
    # The system stops ffmpeg with SIGXFSZ. Python ignores that signal and gets an error.
    assert (caught.value.errno == errno.EFBIG) if ending == ".gif" else (f"signal {signal.SIGXFSZ}" in str(caught.value))
    assert_untouched(old)


def test_a_folder_of_the_same_name_raises_an_error(tmp_path):
    (tmp_path / "film.gif").mkdir()
    with pytest.raises(IsADirectoryError, match=f"{tmp_path}/film.gif"):
        write_video(make_frames(), tmp_path / "film.gif")
    assert [p.name for p in tmp_path.iterdir()] == ["film.gif"]


def test_a_video_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "other").touch()
    path = write_video(make_frames(), tmp_path / "film.mp4")
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_names_that_look_like_options_or_addresses_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("-film.mp4", "http:film.mp4", "%03d.mp4"):
        write_video(make_frames(), name)
        assert len(imageio.imread(tmp_path / name, index=None)) == 10


def test_a_video_overwrites_an_older_file(tmp_path):
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
def test_unsuitable_frames_raise_errors(tmp_path, frames, error, message):
    with pytest.raises(error, match=message):
        write_video(frames, tmp_path / "film.gif")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_ending_raises_an_error(tmp_path):
    with pytest.raises(ParameterError, match=r"\.mp4 or \.gif; got 'film\.avi'"):
        write_video(make_frames(), tmp_path / "film.avi")


def test_frame_rate_must_be_positive(tmp_path):
    with pytest.raises(ParameterError, match="fps must be a number from 0.01 to 1000; got 0"):
        write_video(make_frames(), tmp_path / "film.mp4", fps=0)


@pytest.mark.parametrize(("ending", "module"), [(".mp4", "imageio_ffmpeg"), (".gif", "PIL")])
def test_missing_package_names_the_extra(tmp_path, monkeypatch, ending, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r'pip install "gpu-vecenv\[render\]"'):
        write_video(make_frames(), tmp_path / f"film{ending}")
    assert list(tmp_path.iterdir()) == []
