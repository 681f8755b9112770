"""Pictures of CartPole, measured in the colours of their pixels."""

import math

import numpy as np
import pytest

from gpu_vecenv.envs.cartpole.render import HINGE, SCALE, WIDTH, Renderer
from gpu_vecenv.render.style import DARK


def draw(position=0.0, angle=0.0, t=0, limit=500, length=0.5):
    state = {"state": np.array([position, 0.0, angle, 0.0], np.float32), "t": np.int32(t)}
    return Renderer({"max_episode_steps": limit, "length": length}).frame(state)


def find(picture, colour):
    """Return the (x, y) pixels between the limits and above the rail that have exactly `colour`."""
    rows, columns = np.nonzero((picture[90:350] == colour).all(axis=2))
    return np.stack([columns, rows + 90], axis=1)


def find_pole(picture, colour=DARK.vermilion):
    """Return the pole's pixels; the dashes of the limits have the same colour and are left out."""
    pixels = find(picture, colour)
    return pixels[np.abs(np.abs(pixels[:, 0] - WIDTH / 2) - 2.4 * SCALE) > 4]


def test_a_frame_has_its_shape_and_dtype():
    picture = draw()
    assert picture.shape == (480, 720, 3)
    assert picture.dtype == np.uint8


@pytest.mark.parametrize("position", [-2.0, 0.0, 1.5])
def test_cart_is_at_its_position(position):
    columns = find(draw(position), DARK.sky)[:, 0]
    middle = (columns.min() + columns.max() + 1) / 2
    assert middle == pytest.approx(WIDTH / 2 + position * SCALE, abs=1)


@pytest.mark.parametrize("angle", [-0.2, 0.0, 0.1])
def test_pole_leans_by_its_angle(angle):
    pixels = find_pole(draw(0.5, angle))
    top = pixels[pixels[:, 1] < pixels[:, 1].min() + 6].mean(axis=0)
    hinge = np.array([WIDTH / 2 + 0.5 * SCALE, HINGE])
    assert math.atan2(top[0] - hinge[0], hinge[1] - top[1]) == pytest.approx(angle, abs=0.03)


def test_pole_is_to_scale():
    tops = [find_pole(draw(length=length))[:, 1].min() for length in (0.25, 0.5, 9.0)]
    assert tops[0] - tops[1] == pytest.approx(0.5 * SCALE, abs=1)
    assert 90 < tops[2] < tops[1]


def test_cart_and_pole_beyond_their_limits_are_yellow():
    assert len(find(draw(2.39, 0.2), DARK.mark)) == 0
    assert len(find(draw(2.41, 0.0), DARK.sky)) == 0
    assert len(find_pole(draw(0.0, 0.22))) == 0
    assert len(find_pole(draw(0.0, 0.22), DARK.mark)) > 500


def test_the_time_bar_grows_with_time():
    lengths = [(draw(t=t)[71] == DARK.ink).all(axis=1).sum() for t in (0, 125, 250, 500, 600)]
    np.testing.assert_allclose(lengths, [0, 168, 336, 672, 672], atol=2)


def test_without_a_time_limit_there_is_no_bar():
    row = draw(t=30, limit=0)[71]
    assert (row == DARK.page).all()
