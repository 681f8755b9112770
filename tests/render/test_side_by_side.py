"""Two sequences of frames in one picture, with titles and a legend."""

import numpy as np
import pytest

from gpu_vecenv.envs.tag.render import Renderer
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.render.legend import HEIGHT, Entry, draw_legend
from gpu_vecenv.render.side_by_side import GAP, TITLE_HEIGHT, side_by_side
from gpu_vecenv.render.style import DARK, LIGHT, Style
from tests.render.test_tag import make_params

TITLES = ("random", "trained")
DISC = Entry("agent", lambda canvas, at: canvas.disc(at, 10.0, canvas.palette.sky))


def make_frames(*levels, height=41, width=300):
    return [np.full((height, width, 3), level, np.uint8) for level in levels]


def halves(picture, height=41, width=300):
    """Return the parts of a picture where the two frames are."""
    rows = picture[TITLE_HEIGHT : TITLE_HEIGHT + height]
    return rows[:, :width], rows[:, width + GAP :]


def test_the_last_frame_of_the_shorter_sequence_stays():
    pictures = list(side_by_side(iter(make_frames(1, 2)), make_frames(11, 12, 13, 14), TITLES))
    shown = [[half for half in halves(picture)] for picture in pictures]
    assert all(np.ptp(half) == 0 for pair in shown for half in pair)
    assert [[int(half[0, 0, 0]) for half in pair] for pair in shown] == [[1, 11], [2, 12], [2, 13], [2, 14]]
    assert {picture.shape for picture in pictures} == {(TITLE_HEIGHT + 41 + 1, 608, 3)}  # one row makes the height even


def test_each_title_is_above_its_frame():
    (picture,) = side_by_side(make_frames(0), make_frames(0), ("I", "IIIIIIII"))
    ink = (picture[:TITLE_HEIGHT] == DARK.ink).all(axis=2).any(axis=0)
    left, right = np.flatnonzero(ink[:304]), np.flatnonzero(ink[304:]) + 304
    assert left.mean() == pytest.approx(152, abs=3) and right.mean() == pytest.approx(456, abs=3)
    assert np.ptp(right) > 5 * np.ptp(left)


def test_one_legend_is_below_both_frames():
    plain, named = (next(side_by_side(make_frames(0), make_frames(0), TITLES, entries)) for entries in ((), [DISC]))
    assert len(named) == TITLE_HEIGHT + 41 + HEIGHT + 1
    np.testing.assert_array_equal(named[: TITLE_HEIGHT + 41], plain[: TITLE_HEIGHT + 41])
    below = (named[TITLE_HEIGHT + 41 :] == DARK.sky).all(axis=2)
    assert below.sum() == pytest.approx(np.pi * 100, rel=0.1)


def test_titles_and_legend_follow_the_style():
    style = Style(LIGHT, 0.5)
    (picture,) = side_by_side(make_frames(0, height=40), make_frames(0, height=40), TITLES, [DISC], style)
    assert picture.shape == ((TITLE_HEIGHT + HEIGHT) // 2 + 40, 608, 3)
    assert (picture[0, 0] == LIGHT.page).all() and (picture[-1, -1] == LIGHT.page).all()


def test_frames_are_read_one_at_a_time():
    read = []

    def frames():
        for frame in make_frames(1, 2, 3):
            read.append(int(frame[0, 0, 0]))
            yield frame

    pictures = side_by_side(frames(), make_frames(7), TITLES)
    next(pictures)
    assert read == [1]


@pytest.mark.parametrize("width", [120, 300, 1920])
def test_a_legend_fits_its_width(width):
    entries = Renderer(make_params()).legend
    assert [entry.word for entry in entries] == ["tagger", "runner", "caught", "just caught"]
    strip = draw_legend(entries, width, Style())
    assert strip.shape[1] == width
    drawn = np.flatnonzero((strip != DARK.page).any(axis=(0, 2)))
    assert 0 < drawn.min() and drawn.max() < width - 1
    assert drawn.min() == pytest.approx(width - 1 - drawn.max(), abs=0.13 * width)


@pytest.mark.parametrize(
    ("left", "right", "titles", "error", "message"),
    [
        ([], make_frames(1), TITLES, ParameterError, "each of the two sequences must have at least one frame"),
        (make_frames(1), [], TITLES, ParameterError, "each of the two sequences must have at least one frame"),
        (make_frames(1), make_frames(1, height=40), TITLES, ShapeError, r"got \(41, 300, 3\) and \(40, 300, 3\)"),
        (make_frames(1) + make_frames(1, width=8), make_frames(1), TITLES, ShapeError, r"and \(41, 8, 3\)"),
        ([np.zeros((4, 4, 3))], make_frames(1), TITLES, ArrayTypeError, "uint8, got float64"),
        ([np.zeros(4, np.uint8)], make_frames(1), TITLES, ShapeError, r"got \(4,\)"),
        (make_frames(1), make_frames(1), "ab", ParameterError, "titles must be two texts; got 'ab'"),
        (make_frames(1), make_frames(1), ("a", "b", "c"), ParameterError, "titles must be two texts"),
    ],
)
def test_unsuitable_frames_and_titles_raise_errors(left, right, titles, error, message):
    with pytest.raises(error, match=message):
        list(side_by_side(left, right, titles))
