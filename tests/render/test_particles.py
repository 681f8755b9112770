"""Pictures of particle envs, measured in the colours of their pixels."""

import numpy as np
import pytest

from gpu_vecenv.envs.mpe.scene import MIDDLE, SAID, SIDE, USUAL_REACH, letter_of
from gpu_vecenv.envs.simple.render import Renderer as Simple
from gpu_vecenv.envs.simple_tag.render import Renderer as Tag
from gpu_vecenv.render.expressions import Now
from gpu_vecenv.render.style import DARK


def pixels(picture, colour):
    """Mean column and row of the pixels of a colour, and their number."""
    rows, columns = np.nonzero((picture == colour).all(axis=2))
    return columns.mean(), rows.mean(), len(rows)


def simple(agent, landmark):
    state = {"agent_pos": np.array([agent], np.float32), "landmark_pos": np.array([landmark], np.float32), "t": np.int32(3)}
    return Simple({"max_cycles": 25}).frame(state)


def test_y_is_up_and_circles_have_their_places_and_radii():
    picture, scale = simple((0.5, 0.3), (-0.6, -0.2)), SIDE / 2 / USUAL_REACH
    for colour, (x, y) in ((DARK.sky, (0.5, 0.3)), (DARK.vermilion, (-0.6, -0.2))):
        column, row, number = pixels(picture, colour)
        assert (column, row) == pytest.approx((MIDDLE[0] + scale * x, MIDDLE[1] - scale * y), abs=1)
        assert number == pytest.approx(np.pi * (0.05 * scale) ** 2, rel=0.2)


def test_the_picture_zooms_out_to_the_farthest_place():
    column, _, number = pixels(simple((3.0, 0.0), (0.0, 0.5)), DARK.sky)
    assert column == pytest.approx(MIDDLE[0] + 0.9 * SIDE / 2, abs=1)
    assert number < pixels(simple((1.0, 0.0), (0.0, 0.5)), DARK.sky)[2] / 4


@pytest.mark.parametrize("number", [1e30, np.inf, np.nan])
def test_a_place_that_is_none_is_not_drawn(number):
    picture = simple((number, 0.0), (0.5, 0.5))
    assert not (picture == DARK.sky).all(axis=2).any() and (picture == DARK.vermilion).all(axis=2).any()


@pytest.mark.parametrize(("apart", "touched"), [(0.12, True), (0.13, False)])
def test_a_ring_shows_a_touch(apart, touched):
    places = np.array([[0, 0], [0.8, 0.8], [apart, 0]], np.float32)
    state = {"agent_pos": places, "landmark_pos": np.zeros((0, 2), np.float32), "t": np.int32(1)}
    picture = Tag({"max_cycles": 25, "num_adversaries": 2, "num_good": 1, "num_obstacles": 0}).frame(state)
    assert (picture[100:600] == DARK.mark).all(axis=2).any() == touched


def test_letters_are_those_of_mpe2():
    letter = letter_of(3, 0).json
    said = [Now({"comm": np.array([words])}).value(letter) for words in ([0, 0, 0], [0, 1, 0], [0.2, 0.1, 0.9], [0, 1, 1])]
    assert [SAID[int(number)] for number in said] == ["_", "B", "C", "B"]
