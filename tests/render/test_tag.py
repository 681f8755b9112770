"""Pictures of Tag, measured in the colours of their pixels."""

import math

import numpy as np
import pytest

from gpu_vecenv.envs.tag import render
from gpu_vecenv.envs.tag.render import ARENA, FLASH_STEPS, RIM, Renderer
from gpu_vecenv.render.style import DARK, mix

LENGTH = 10.0
TAGGER, RUNNER, CAUGHT, FRESH = DARK.vermilion, DARK.sky, DARK.faded, DARK.mark


def make_params(taggers=1, runners=1, **changes):
    params = {
        "num_taggers": taggers,
        "num_runners": runners,
        "grid_length": LENGTH,
        "episode_length": 100,
        "tagging_distance": 0.02,
        "runner_exits_game_after_tagged": True,
    }
    return params | changes


def make_state(places, t=0, direction=0.0, caught=(), episode=0):
    """Return a state of agents at `places`; those numbered in `caught` are not alive."""
    x, y = np.array(places, np.float32).T
    alive = np.ones(len(places), np.int32)
    alive[list(caught)] = 0
    heading = np.broadcast_to(np.float32(direction), x.shape)
    clock = {"t": np.int32(t), "episode": np.int32(episode)}
    return {"loc_x": x, "loc_y": y, "direction": heading, "alive": alive} | clock


def make_crowd(taggers, runners, t=0, seed=0):
    draws = np.random.default_rng(seed)
    agents = taggers + runners
    return make_state(draws.uniform(0, LENGTH, (agents, 2)), t, draws.uniform(0, 6.28, agents))


def find(picture, colour):
    """Return the (x, y) pixels of the arena that have exactly `colour`, shape (n, 2)."""
    rows, columns = np.nonzero((picture[:, :ARENA] == colour).all(axis=2))
    return np.stack([columns, rows], axis=1)


def to_pixels(x, y):
    """Return a place of the world in pixels. It is computed here independently of the renderer."""
    scale = (688 - 2 * RIM) / LENGTH
    return np.array([RIM + x * scale, 688 - RIM - y * scale])


@pytest.mark.parametrize(("taggers", "runners"), [(1, 1), (5, 100), (50, 950)])
def test_a_frame_has_its_shape_and_dtype(taggers, runners):
    picture = Renderer(make_params(taggers, runners)).frame(make_crowd(taggers, runners))
    assert picture.shape == (688, 960, 3)
    assert picture.dtype == np.uint8
    # With many runners, each is drawn small, but has solid pixels.
    assert len(find(picture, TAGGER)) > 10 * taggers
    assert len(find(picture, RUNNER)) > 3 * runners


def test_agents_are_drawn_at_their_places():
    picture = Renderer(make_params()).frame(make_state([(2.0, 3.0), (7.0, 9.0)]))
    np.testing.assert_allclose(find(picture, TAGGER).mean(axis=0), to_pixels(2, 3), atol=6)
    np.testing.assert_allclose(find(picture, RUNNER).mean(axis=0), to_pixels(7, 9), atol=6)


@pytest.mark.parametrize(("angle", "ahead"), [(0.0, (1, 0)), (math.pi / 2, (0, -1)), (math.pi, (-1, 0))])
def test_a_runner_points_in_its_direction(angle, ahead):
    picture = Renderer(make_params()).frame(make_state([(1.0, 1.0), (5.0, 5.0)], direction=angle))
    along = (find(picture, RUNNER) + 0.5 - to_pixels(5, 5)) @ np.array(ahead)
    assert along.max() > 1.5 * -along.min()


def test_taggers_runners_and_caught_runners_have_different_shapes():
    state = make_state([(2.0, 5.0), (5.0, 5.0), (8.0, 5.0)], caught=[2])
    picture = Renderer(make_params(1, 2)).frame(state)
    masks = []
    for x, colour in ((2, TAGGER), (5, RUNNER), (8, CAUGHT)):
        column, row = to_pixels(x, 5).astype(int)
        window = picture[row - 20 : row + 20, column - 20 : column + 20]
        masks.append((window == colour).all(axis=2))
    assert all(mask.sum() > 15 for mask in masks)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        overlap = (masks[a] & masks[b]).sum() / (masks[a] | masks[b]).sum()
        assert overlap < 0.75


def test_a_caught_runner_changes_its_colour():
    picture = Renderer(make_params()).frame(make_state([(2.0, 5.0), (8.0, 5.0)], caught=[1]))
    assert len(find(picture, RUNNER)) == 0
    np.testing.assert_allclose(find(picture, CAUGHT).mean(axis=0), to_pixels(8, 5), atol=2)


@pytest.mark.parametrize("distance", [0.1, 0.3])
def test_tagging_distance_is_to_scale(distance):
    picture = Renderer(make_params(tagging_distance=distance)).frame(make_state([(5.0, 5.0), (1.0, 1.0)]))
    pixels = find(picture, mix(TAGGER, DARK.surface, 0.25))
    np.testing.assert_allclose(np.ptp(pixels, axis=0), 2 * distance * (ARENA - 2 * RIM), atol=3)


def test_a_large_tagging_distance_does_not_hide_the_arena():
    picture = Renderer(make_params(tagging_distance=1.0)).frame(make_state([(5.0, 5.0), (1.0, 1.0)]))
    assert len(find(picture, DARK.surface)) > 0.9 * (ARENA - 2 * RIM) ** 2


def test_an_agent_in_a_corner_is_drawn_whole():
    states = [make_state([(5.0, 5.0), place]) for place in ((0.0, 10.0), (2.0, 2.0))]
    at_corner, inside = (len(find(Renderer(make_params()).frame(state), RUNNER)) for state in states)
    assert at_corner == pytest.approx(inside, rel=0.1)


def test_a_ring_marks_a_new_tag_and_fades():
    renderer = Renderer(make_params())
    places = [(2.0, 5.0), (8.0, 5.0)]
    assert len(find(renderer.frame(make_state(places, t=0)), FRESH)) == 0
    tagged = find(renderer.frame(make_state(places, t=1, caught=[1])), FRESH)
    np.testing.assert_allclose(tagged.mean(axis=0), to_pixels(8, 5), atol=2)
    assert np.ptp(tagged, axis=0).min() > 20
    for t in range(2, FLASH_STEPS + 1):
        assert len(find(renderer.frame(make_state(places, t=t, caught=[1])), FRESH)) > 0
    late = renderer.frame(make_state(places, t=FLASH_STEPS + 1, caught=[1]))
    assert len(find(late, FRESH)) == 0
    assert len(find(late, CAUGHT)) > 0


def test_the_first_frame_of_a_running_episode_has_no_rings():
    picture = Renderer(make_params()).frame(make_state([(2.0, 5.0), (8.0, 5.0)], t=40, caught=[1]))
    assert len(find(picture, FRESH)) == 0


@pytest.mark.parametrize(("gap", "marked"), [(0.19, True), (0.21, False)])
def test_without_exits_a_ring_marks_runners_in_reach(gap, marked):
    renderer = Renderer(make_params(runner_exits_game_after_tagged=False))
    renderer.frame(make_state([(1.0, 1.0), (9.0, 9.0)], t=0))
    picture = renderer.frame(make_state([(5.0, 5.0), (5.0 + gap, 5.0)], t=1))
    assert (len(find(picture, FRESH)) > 0) == marked


def walk(renderer, steps, episode=0):
    for t in range(steps):
        picture = renderer.frame(make_state([(1 + 0.3 * t, 2.0), (1 + 0.3 * t, 8.0)], t=t, episode=episode))
    return picture


def test_trails_follow_the_agents():
    steps = 10
    picture = walk(Renderer(make_params()), steps)
    left, _ = to_pixels(1 + 0.3 * (steps - 1), 8)
    row = int(to_pixels(0, 8)[1])
    behind = picture[row, int(left) - 60 : int(left) - 20].astype(int)
    ahead = picture[row, int(left) + 20 : int(left) + 60].astype(int)
    bluer = (behind[:, 2] - behind[:, 0] > 60).mean()
    assert bluer > 0.9
    assert (ahead[:, 2] - ahead[:, 0] > 60).mean() == 0


@pytest.mark.parametrize(("runners", "trailed"), [(20, True), (100, False)])
def test_runners_of_a_crowd_have_no_trails(runners, trailed):
    renderer = Renderer(make_params(1, runners))
    for t in range(10):
        places = [(1 + 0.3 * t, 2.0), *[(1 + 0.3 * t, 8.0)] * runners]
        picture = renderer.frame(make_state(places, t=t)).astype(int)
    left, row = to_pixels(1 + 0.3 * 9, 8).astype(int)
    behind = picture[row, left - 60 : left - 20]
    assert (behind[:, 2] - behind[:, 0] > 60).any() == trailed
    _, row = to_pixels(0, 2).astype(int)
    behind = picture[row, left - 60 : left - 20]
    assert (behind[:, 0] - behind[:, 2] > 60).any()  # the tagger's


@pytest.mark.parametrize(("t", "episode"), [(0, 0), (0, 1), (9, 1), (50, 1)])
def test_a_new_episode_starts_without_trails(t, episode):
    old = Renderer(make_params())
    walk(old, 10)
    state = make_state([(3.0, 3.0), (6.0, 6.0)], t=t, episode=episode)
    np.testing.assert_array_equal(old.frame(state), Renderer(make_params()).frame(state))


def test_reset_removes_the_trails():
    old = Renderer(make_params())
    walk(old, 10)
    old.reset()
    state = make_state([(3.0, 3.0), (6.0, 6.0)], t=10)
    np.testing.assert_array_equal(old.frame(state), Renderer(make_params()).frame(state))


@pytest.mark.parametrize("exits", [True, False])
def test_drawing_a_state_again_gives_the_same_frame(exits):
    params = make_params(runner_exits_game_after_tagged=exits)
    once, often = Renderer(params), Renderer(params)
    for t in range(8):
        caught = [1] if exits and t > 5 else []
        state = make_state([(5 + 0.3 * t, 5.0), (6 + 0.2 * t, 5.0)], t=t, caught=caught)
        expected = once.frame(state)
        for _ in range(3):
            np.testing.assert_array_equal(often.frame(state), expected)


def test_a_state_without_an_episode_number_can_be_drawn():
    state = make_state([(3.0, 3.0), (6.0, 6.0)])
    del state["episode"]
    renderer = Renderer(make_params())
    np.testing.assert_array_equal(renderer.frame(state), renderer.frame(state))


def curve_point(picture):
    """Return the centre of the dot at the end of the curve, in pixels of the panel."""
    box = picture[render.CURVE_TOP - 6 : render.CURVE_BOTTOM + 6, ARENA:]
    rows, columns = np.nonzero((box == RUNNER).all(axis=2))
    rightmost = columns == columns.max()  # the dot has a radius of 4
    return columns.max() - 3, rows[rightmost].mean() + render.CURVE_TOP - 6


def test_curve_shows_time_and_free_runners():
    renderer = Renderer(make_params(1, 10))
    places = [(5.0, 5.0), *((1.0 + 0.5 * k, 9.0) for k in range(10))]
    for t in range(51):
        picture = renderer.frame(make_state(places, t=t, caught=range(1, 4) if t > 20 else ()))
    x, y = curve_point(picture)
    assert x == pytest.approx((render.LEFT + render.RIGHT) / 2, abs=2)
    height = (render.CURVE_BOTTOM - y) / (render.CURVE_BOTTOM - render.CURVE_TOP)
    assert height == pytest.approx(0.7, abs=0.03)  # 3 of 10 are caught


@pytest.mark.slow
def test_the_curve_of_a_long_episode_shows_the_newest_point():
    renderer = Renderer(make_params(episode_length=1084))
    for t in range(0, 543, 2):  # more points than the curve is wide
        picture = renderer.frame(make_state([(1.0, 1.0), (9.0, 9.0)], t=t, caught=[1] if t == 542 else []))
    x, y = curve_point(picture)
    assert x == pytest.approx((render.LEFT + render.RIGHT) / 2, abs=2)
    assert y == pytest.approx(render.CURVE_BOTTOM, abs=2)


@pytest.mark.parametrize(("t", "caught"), [(30, [1]), (100, [])])
def test_the_end_of_an_episode_is_shown(t, caught):
    places = [(2.0, 5.0), (8.0, 5.0)]
    running = Renderer(make_params()).frame(make_state(places, t=30))
    ended = Renderer(make_params()).frame(make_state(places, t=t, caught=caught))
    assert (running[625:655, ARENA:] == DARK.page).all()
    assert (ended[625:655, ARENA:] == FRESH).all(axis=2).any()


def test_drawing_does_not_change_the_state():
    state = make_crowd(2, 8)
    before = {name: np.array(value) for name, value in state.items()}
    Renderer(make_params(2, 8)).frame(state)
    for name, value in before.items():
        np.testing.assert_array_equal(state[name], value)


@pytest.mark.parametrize("exits", [True, False])
def test_a_scene_is_the_arena_below_one_line(exits):
    def renderer():
        return Renderer(make_params(1, 2, runner_exits_game_after_tagged=exits))

    state = make_state([(2.0, 3.0), (7.0, 9.0), (1.0, 1.0)], t=5, caught=[2] if exits else [])
    scene = renderer().scene(state)
    assert scene.shape == (736, 688, 3) and scene.dtype == np.uint8
    np.testing.assert_array_equal(scene[48:], renderer().frame(state)[:, :ARENA])
    assert (scene[:48] == DARK.ink).all(axis=2).any()
    assert "caught" in [entry.word for entry in renderer().legend] or not exits
