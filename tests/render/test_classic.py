"""Pictures of Acrobot, both mountain cars and Pendulum, measured in the colours of their pixels."""

import math

import numpy as np
import pytest

from gpu_vecenv.envs.acrobot import render as acrobot
from gpu_vecenv.envs.mountain_car import render as mountain_car
from gpu_vecenv.envs.mountain_car_continuous import render as mountain_car_continuous
from gpu_vecenv.envs.pendulum import render as pendulum
from gpu_vecenv.render.frame import FOOTER, HEADER
from gpu_vecenv.render.style import DARK

CASES = {
    "acrobot": (acrobot.Renderer, [0.1, 0.2, 1.0, -1.0], (640, 600)),
    "mountain_car": (mountain_car.Renderer, [-0.5, 0.01], (560, 720)),
    "mountain_car_continuous": (mountain_car_continuous.Renderer, [-0.5, 0.01], (560, 720)),
    "pendulum": (pendulum.Renderer, [1.0, 2.0], (600, 560)),
}


def draw(renderer, values, t=0, limit=0, **params):
    state = {"state": np.array(values, np.float32), "t": np.int32(t)}
    return renderer({"max_episode_steps": limit, "goal_velocity": 0.0, "l": 1.0, **params}).frame(state)


def find(picture, colour):
    """Return the (x, y) pixels of the drawing area that have exactly `colour`, shape (n, 2)."""
    rows, columns = np.nonzero((picture[HEADER:-FOOTER] == colour).all(axis=2))
    return np.stack([columns, rows + HEADER], axis=1)


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_a_frame_has_its_shape_and_dtype(case):
    renderer, values, size = case
    picture = draw(renderer, values)
    assert picture.shape == (*size, 3)
    assert picture.dtype == np.uint8
    assert size[0] % 2 == size[1] % 2 == 0


def test_a_frame_depends_on_its_state_only(case):
    renderer, values, _ = case
    state = {"state": np.array(values, np.float32), "t": np.int32(3)}
    kept = renderer({"max_episode_steps": 0, "goal_velocity": 0.0, "l": 1.0})
    kept.frame({"state": -state["state"], "t": np.int32(2)})
    np.testing.assert_array_equal(kept.frame(state), draw(renderer, values, t=3))
    np.testing.assert_array_equal(state["state"], np.float32(values))


def test_every_entry_of_the_state_changes_the_frame(case):
    renderer, values, _ = case
    first = draw(renderer, values)
    for k in range(len(values)):
        changed = [v + 0.3 * abs(v) * (i == k) for i, v in enumerate(values)]
        assert (draw(renderer, changed) != first).any()


def test_the_time_bar_grows_with_time(case):
    renderer, values, size = case
    lengths = [(draw(renderer, values, t, 500)[71] == DARK.ink).all(axis=1).sum() for t in (0, 250, 500, 600)]
    whole = size[1] - 48
    np.testing.assert_allclose(lengths, [0, whole / 2, whole, whole], atol=2)


def direction(pixels, origin):
    """Return the angle in which the pixels lie as seen from `origin`, counter-clockwise from straight right."""
    x, y = pixels.mean(axis=0) + 0.5 - origin
    return math.atan2(-y, x)


@pytest.mark.parametrize(("first", "second"), [(0.0, 0.0), (0.7, -1.2), (-2.0, 0.5), (2.4, 2.0)])
def test_acrobots_links_lie_at_their_angles(first, second):
    picture = draw(acrobot.Renderer, [first, second, 0.0, 0.0])
    pivot = np.array(acrobot.PIVOT)
    elbow = pivot + acrobot.SCALE * np.array([math.sin(first), math.cos(first)])
    for colour, origin, angle in ((DARK.sky, pivot, first), (DARK.vermilion, elbow, first + second)):
        seen = direction(find(picture, colour), origin)
        assert math.remainder(seen - (angle - math.pi / 2), 2 * math.pi) == pytest.approx(0, abs=0.08)


@pytest.mark.parametrize(("angle", "reached"), [(2.05, False), (2.14, True)])
def test_an_acrobot_above_the_line_is_yellow(angle, reached):
    """With both links in line, the free end is 2 cos(pi - angle) above the pivot; the line is at 1."""
    picture = draw(acrobot.Renderer, [angle, 0.0, 0.0, 0.0])
    assert (-2 * math.cos(angle) > 1) == reached
    assert (len(find(picture, DARK.mark)) > 0) == reached


@pytest.mark.parametrize(
    ("module", "values", "place", "heading"),
    [(acrobot, [0.5, 0.0, 0.0, 0.0], 2, 0.5 - math.pi / 2), (pendulum, [0.5, 0.0], 1, 0.5 + math.pi / 2)],
)
def test_the_arrow_shows_the_direction_and_size_of_the_speed(module, values, place, heading):
    """The arrow starts at the link and turns around the pivot, counter-clockwise for positive speeds."""
    sweeps = []
    for speed in (-6.0, -3.0, 3.0, 6.0):
        moving = draw(module.Renderer, [speed if k == place else v for k, v in enumerate(values)])
        rows, columns = np.nonzero((moving != draw(module.Renderer, values))[HEADER:-FOOTER].any(axis=2))
        pixels = np.stack([columns, rows + HEADER], axis=1)
        sweeps.append(math.remainder(direction(pixels, np.array(module.PIVOT)) - heading, 2 * math.pi))
    assert sweeps == sorted(sweeps)
    np.testing.assert_allclose(sweeps, -np.array(sweeps[::-1]), atol=0.05)
    assert sweeps[2] > 0.1


@pytest.mark.parametrize("angle", [0.0, 1.0, -2.0, 3.0, 7.5])
def test_rod_leans_counter_clockwise_from_upright(angle):
    seen = direction(find(draw(pendulum.Renderer, [angle, 0.0]), DARK.vermilion), np.array(pendulum.PIVOT))
    assert math.remainder(seen - math.pi / 2 - angle, 2 * math.pi) == pytest.approx(0, abs=0.03)


def test_rod_is_to_scale():
    lengths = []
    for length in (0.5, 1.0):
        rows = find(draw(pendulum.Renderer, [0.0, 0.0], l=length), DARK.vermilion)[:, 1]
        lengths.append(np.ptp(rows))
    assert lengths[1] - lengths[0] == pytest.approx(0.5 * pendulum.SCALE, abs=2)


@pytest.mark.parametrize("position", [-1.2, -0.9, -0.52, 0.1, 0.4])
def test_car_stands_on_the_road(position):
    place = find(draw(mountain_car.Renderer, [position, 0.0]), DARK.sky).mean(axis=0)
    scale = (720 - 2 * mountain_car.MARGIN) / 1.8
    road = mountain_car.FLOOR - scale * (0.45 * math.sin(3 * position) + 0.55)
    road_x = mountain_car.MARGIN + scale * (position + 1.2)
    assert math.dist(place, (road_x, road)) == pytest.approx(20, abs=6)  # half the height of the body
    assert place[1] < road


@pytest.mark.parametrize("velocity", [0.07, -0.07])
def test_arrow_points_where_the_car_goes(velocity):
    picture = draw(mountain_car.Renderer, [-math.pi / 6, velocity])  # the bottom of the valley
    car = find(picture, DARK.sky).mean(axis=0)
    arrow = find(picture, DARK.vermilion).mean(axis=0)
    assert math.copysign(1, arrow[0] - car[0]) == math.copysign(1, velocity)
    assert len(find(draw(mountain_car.Renderer, [-math.pi / 6, 0.0]), DARK.vermilion)) == 0


@pytest.mark.parametrize(("module", "goal"), [(mountain_car, 0.5), (mountain_car_continuous, 0.45)])
def test_a_car_at_its_flag_is_yellow(module, goal):
    def yellow(position, velocity, **params):
        return len(find(draw(module.Renderer, [position, velocity], **params), DARK.mark)) > 0

    assert yellow(goal, 0.0)
    assert not yellow(goal - 1e-3, 0.05)
    assert not yellow(goal, -0.01)
    assert not yellow(goal, 0.01, goal_velocity=0.02)


def test_flags_stand_at_their_goals():
    columns = [
        find(draw(module.Renderer, [-0.5, 0.0]), DARK.ink)[:, 0].mean()
        for module in (mountain_car, mountain_car_continuous)
    ]
    scale = (720 - 2 * mountain_car.MARGIN) / 1.8
    np.testing.assert_allclose(columns, mountain_car.MARGIN + scale * (np.array([0.5, 0.45]) + 1.2), atol=1)
