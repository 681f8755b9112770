"""Pictures of Tag on a grid, measured in the colours of their pixels."""

import numpy as np
import pytest

from gpu_vecenv.envs.grid_tag.render import ARENA, RIM, Renderer
from gpu_vecenv.render.style import DARK

TAGGER, RUNNER, TAGGED = DARK.vermilion, DARK.sky, DARK.mark


def make(taggers=1, length=9, limit=100):
    return Renderer({"num_taggers": taggers, "grid_length": length, "episode_length": limit})


def make_state(cells, t=0, episode=0):
    """Return a state with agents in `cells`, the runner last."""
    x, y = np.array(cells, np.int32).T
    return {"loc_x": x, "loc_y": y, "t": np.int32(t), "episode": np.int32(episode)}


def find(picture, colour, part=slice(0, ARENA)):
    """Return the (x, y) pixels of the arena that have exactly `colour`, shape (n, 2)."""
    rows, columns = np.nonzero((picture[:, part] == colour).all(axis=2))
    return np.stack([columns, rows], axis=1)


def to_pixels(x, y, length=9):
    """Return the middle of a cell, in pixels. It is computed here independently of the renderer."""
    cell = (688 - 2 * RIM) / (length + 1)
    return np.array([RIM + (x + 0.5) * cell, 688 - RIM - (y + 0.5) * cell])


@pytest.mark.parametrize(("taggers", "length"), [(1, 1), (4, 3), (10, 100), (30, 4096)])
def test_a_frame_has_its_shape_and_dtype(taggers, length):
    draws = np.random.default_rng(0)
    picture = make(taggers, length).frame(make_state(draws.integers(0, length + 1, (taggers + 1, 2))))
    assert picture.shape == (688, 960, 3)
    assert picture.dtype == np.uint8
    assert len(find(picture, RUNNER)) > 30


@pytest.mark.parametrize("length", [9, 100])
@pytest.mark.parametrize("cells", [[(2, 3), (7, 9)], [(0, 0), (9, 4)]])
def test_agents_are_drawn_at_their_places(cells, length):
    picture = make(length=length).frame(make_state(cells))
    np.testing.assert_allclose(find(picture, TAGGER).mean(axis=0) + 0.5, to_pixels(*cells[0], length), atol=1)
    np.testing.assert_allclose(find(picture, RUNNER).mean(axis=0) + 0.5, to_pixels(*cells[1], length), atol=1)


def test_agents_stay_inside_their_cells():
    picture = make().frame(make_state([(2, 3), (7, 9)]))
    for colour in (TAGGER, RUNNER):
        assert np.ptp(find(picture, colour), axis=0).max() < (ARENA - 2 * RIM) / 10


def test_taggers_are_squares_and_the_runner_is_a_disc():
    picture = make().frame(make_state([(2, 3), (7, 9)]))
    filled = []
    for colour in (TAGGER, RUNNER):
        pixels = find(picture, colour)
        filled.append(len(pixels) / np.prod(np.ptp(pixels, axis=0) + 1))
    assert filled[0] > 0.9
    assert filled[1] == pytest.approx(np.pi / 4, abs=0.05)


def test_taggers_that_share_a_cell_are_counted():
    alone, pair = (make(2).frame(make_state([(2, 3), cell, (7, 9)])) for cell in ((5, 5), (2, 3)))
    assert len(find(alone, DARK.ink)) == 0
    np.testing.assert_allclose(find(pair, DARK.ink).mean(axis=0), to_pixels(2, 3), atol=5)


def test_ring_marks_the_tag():
    renderer = make()
    assert len(find(renderer.frame(make_state([(2, 3), (4, 3)], t=5)), TAGGED)) == 0
    picture = renderer.frame(make_state([(4, 3), (4, 3)], t=6))
    np.testing.assert_allclose(find(picture, TAGGED).mean(axis=0) + 0.5, to_pixels(4, 3), atol=1)
    assert len(find(picture, TAGGER)) > 0 and len(find(picture, RUNNER)) > 0
    assert len(find(picture, TAGGED, slice(ARENA, None))) > 300  # the verdict and the ring in the legend


def test_given_starts_in_one_cell_are_no_tag():
    assert len(find(make().frame(make_state([(4, 3), (4, 3)], t=0)), TAGGED)) == 0


def test_the_time_limit_is_shown():
    panel = slice(ARENA, None)
    before, after = (make().frame(make_state([(2, 3), (7, 9)], t=t))[600:] for t in (99, 100))
    assert len(find(before, TAGGED, panel)) == 0
    assert len(find(after, TAGGED, panel)) > 100


def walk(renderer, steps, episode=0):
    for t in range(steps):
        picture = renderer.frame(make_state([(t, 2), (t, 8)], t=t, episode=episode))
    return picture


def test_trails_follow_the_agents():
    picture = walk(make(length=19), 10).astype(int)
    left, row = to_pixels(9, 8, 19).astype(int)
    behind, ahead = picture[row, left - 60 : left - 20], picture[row, left + 20 : left + 60]
    assert (behind[:, 2] - behind[:, 0] > 60).all()
    assert not (ahead[:, 2] - ahead[:, 0] > 60).any()


@pytest.mark.parametrize(("t", "episode"), [(0, 0), (0, 1), (9, 1), (50, 1)])
def test_a_new_episode_starts_without_trails(t, episode):
    old = make()
    walk(old, 10)
    state = make_state([(3, 3), (6, 6)], t=t, episode=episode)
    np.testing.assert_array_equal(old.frame(state), make().frame(state))


def test_drawing_a_state_again_gives_the_same_frame():
    once, often = make(), make()
    for t in range(8):
        state = make_state([(t, 2), (t, 8)], t=t)
        expected = once.frame(state)
        for _ in range(3):
            np.testing.assert_array_equal(often.frame(state), expected)


def test_drawing_does_not_change_the_state():
    state = make_state([(2, 3), (7, 9)], t=3)
    before = {name: np.array(value) for name, value in state.items()}
    make().frame(state)
    for name, value in before.items():
        np.testing.assert_array_equal(state[name], value)


@pytest.mark.parametrize("length", [20, 100, 1000])
def test_agents_have_a_least_width_on_any_board(length):
    picture = make(length=length).frame(make_state([(length // 4, 3), (length // 2, 9)]))
    for colour in (TAGGER, RUNNER):
        assert np.ptp(find(picture, colour), axis=0).min() >= 19


def test_many_taggers_are_smaller():
    cells = [(10 * (k % 10), 10 * (k // 10)) for k in range(100)]
    few, many = (make(n, 100).frame(make_state([*cells[:n], (55, 55)])) for n in (4, 100))
    assert len(find(many, RUNNER)) < 0.7 * len(find(few, RUNNER))


def test_trails_on_a_large_board_show_more_steps():
    renderer = make(length=100)
    for t in range(25):
        picture = renderer.frame(make_state([(10, 2), (10 + t, 80)], t=t)).astype(int)
    left, row = to_pixels(20, 80, 100).astype(int)  # 14 steps behind
    assert picture[row, left, 2] - picture[row, left, 0] > 40


def test_a_scene_is_the_board_below_one_line():
    state = make_state([(2, 3), (7, 9)], t=5)
    scene = make().scene(state)
    assert scene.shape == (736, 688, 3) and scene.dtype == np.uint8
    np.testing.assert_array_equal(scene[48:], make().frame(state)[:, :ARENA])
    assert (scene[:48] == DARK.ink).all(axis=2).any()
    assert [entry.word for entry in make().legend] == ["tagger", "runner", "caught"]
