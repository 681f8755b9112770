"""Many worlds: each has a renderer of its own, and one picture shows their frames."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401  (registers the env ids)
from gpu_vecenv.errors import ArrayTypeError, ParameterError, SequenceError, ShapeError
from gpu_vecenv.render.legend import HEIGHT as LEGEND_HEIGHT
from gpu_vecenv.render.legend import Entry
from gpu_vecenv.render.style import DARK, Style
from gpu_vecenv.render.worlds import GAP, TILED_HEIGHT, TILED_WIDTH, tile
from tests.ids import EVERY_ID
from tests.marks import in_ci


def make_frames(count, height=40, width=60):
    """Return frames of one grey each; frame k has brightness 100 + k."""
    return [np.full((height, width, 3), 100 + k, np.uint8) for k in range(count)]


def test_one_frame_is_not_changed():
    frame = np.random.default_rng(0).integers(0, 256, (688, 960, 3)).astype(np.uint8)
    np.testing.assert_array_equal(tile([frame]), frame)


def test_frames_are_placed_row_by_row():
    picture = tile(make_frames(5), columns=3)
    assert picture.shape == (2 * 40 + GAP, 3 * 60 + 2 * GAP, 3)
    for k in range(5):
        top, left = k // 3 * (40 + GAP), k % 3 * (60 + GAP)
        assert (picture[top : top + 40, left : left + 60] == 100 + k).all()
    assert (picture[40 + GAP :, 2 * (60 + GAP) :] == DARK.grid).all()  # the last place is empty
    covered = sum((picture == 100 + k).all(axis=2).sum() for k in range(5))
    assert covered == 5 * 40 * 60


def test_columns_are_at_most_the_number_of_frames():
    assert tile(make_frames(2), columns=7).shape == (40, 2 * 60 + GAP, 3)


@pytest.mark.parametrize(
    ("size", "count"), [((688, 960), 9), ((481, 721), 2), ((481, 721), 50), ((1300, 300), 9), ((1300, 300), 1000)],
)
def test_pictures_have_bounded_and_even_sizes(count, size):
    frames = [np.full((*size, 3), 200, np.uint8)] * count
    height, width, _ = tile(frames).shape
    assert height <= TILED_HEIGHT and width <= TILED_WIDTH
    assert height % 2 == width % 2 == 0


@pytest.mark.parametrize("count", in_ci([30], [1, 4, 7, 30]))
def test_the_chosen_number_of_columns_shows_the_frames_largest(count):
    """Frames cover at least as much of the picture as with any other number of columns."""
    frames = [np.full((480, 720, 3), 200, np.uint8)] * count

    def shown(columns):
        return (tile(frames, columns) == 200).all(axis=2).sum()

    assert shown(None) == max(shown(columns) for columns in range(1, count + 1))


def test_shrinking_averages_pixels():
    stripes = np.zeros((2000, 1000, 3), np.uint8)
    stripes[:, ::2] = 200
    picture = tile([stripes])
    assert picture.shape == (1080, 540, 3)
    assert picture.mean() == pytest.approx(100, abs=2)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("count", [2, 9, 50])
def test_a_picture_has_one_legend_inside_its_limits(count, scale):
    legend = [Entry("agent", lambda canvas, at: canvas.disc(at, 10.0, DARK.sky))]
    frames = [np.full((int(688 * scale), int(688 * scale), 3), 200, np.uint8)] * count
    picture = tile(frames, style=Style(scale=scale), legend=legend)
    height, width, _ = picture.shape
    assert height <= TILED_HEIGHT * scale and width <= TILED_WIDTH * scale
    assert height % 2 == width % 2 == 0
    discs = (picture == DARK.sky).all(axis=2)
    assert discs.sum() == pytest.approx(np.pi * (10 * scale) ** 2, rel=0.2)  # its smooth edge has other colours
    assert np.nonzero(discs)[0].min() > height - LEGEND_HEIGHT * scale


def test_four_square_frames_make_a_square():
    picture = tile(make_frames(4, 700, 700))
    assert picture.shape[0] == picture.shape[1]


@pytest.mark.parametrize(
    ("frames", "columns", "error", "message"),
    [
        ([], None, ParameterError, "at least one frame"),
        (make_frames(2), 0, ParameterError, "columns must be at least 1, got 0"),
        ([np.zeros((4, 4, 3))], None, ArrayTypeError, "uint8, got float64"),
        ([np.zeros((4, 4), np.uint8)], None, ShapeError, r"got \(4, 4\)"),
        (make_frames(1) + make_frames(1, 42), None, ShapeError, r"\(40, 60, 3\) and \(42, 60, 3\)"),
        (make_frames(1) * 3000, 3000, ParameterError, "smaller than a pixel"),
    ],
)
def test_unsuitable_frames_raise_errors(frames, columns, error, message):
    with pytest.raises(error, match=message):
        tile(frames, columns)


@pytest.mark.parametrize("name", EVERY_ID)
def test_every_env_draws_its_worlds(name):
    env = gymnasium.make_vec(name, 3, device="cpu", array="numpy", render_mode="rgb_array")
    env.reset(seed=1)
    first = env.render()
    env.action_space.seed(2)
    for _ in range(2):
        env.step(env.action_space.sample())
    frames = env.render()
    env.close()
    assert len(frames) == 3
    for frame, before in zip(frames, first, strict=True):
        assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[-1] == 3
        assert frame.shape[0] % 2 == frame.shape[1] % 2 == 0
        assert (frame != before).any()
    assert (frames[0] != frames[1]).any()


def test_each_world_is_drawn_with_its_own_parameters():
    env = gymnasium.make_vec(
        "WarpPendulum-v1", 2, device="cpu", array="numpy", render_mode="rgb_array", l=[0.5, 1.0], m=[1.0, 2.0]
    )
    env.reset(seed=0)
    env.unwrapped.set_state({"state": np.zeros((2, 2), np.float32)})
    heights = [np.ptp(np.nonzero((frame == DARK.vermilion).all(axis=2))[0]) for frame in env.render()]
    env.close()
    assert heights[1] - heights[0] == pytest.approx(75, abs=2)


@pytest.mark.parametrize("view", ["worlds", "agents"])
def test_a_picture_shows_the_first_worlds(view):
    """It fits `matplotlib.pyplot.imshow`, which takes arrays of shape (H, W, 3)."""
    options = {"view": view, "device": "cpu", "array": "numpy", "num_taggers": 2, "grid_length": 9}
    many, few = (gymnasium.make_vec("WarpGridTag-v0", num_worlds=n, **options) for n in (30, 4))
    for env in (many, few):
        env.reset(seed=1)
    picture = many.unwrapped.picture(4)
    assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[-1] == 3
    np.testing.assert_array_equal(picture, few.unwrapped.picture())
    assert many.unwrapped.picture().shape != picture.shape
    np.testing.assert_array_equal(many.unwrapped.picture(4), picture)
    for env in (many, few):
        env.close()


def test_the_picture_of_one_world_is_its_frame():
    env = gymnasium.make_vec("WarpGridTag-v0", 1, device="cpu", array="numpy", render_mode="rgb_array")
    env.reset(seed=1)
    np.testing.assert_array_equal(env.unwrapped.picture(), env.render()[0])
    env.close()


@pytest.mark.parametrize("number", [4872904.5, 1e30, np.inf, np.nan])
def test_a_number_that_is_no_coordinate_does_not_change_the_picture(number):
    env = gymnasium.make_vec("WarpTag-v0", 1, device="cpu", array="numpy", num_taggers=1, num_runners=2).unwrapped
    env.reset(seed=1)
    expected = env.picture()
    env.set_state({"speed": np.full((1, 3), number, np.float32)})
    np.testing.assert_array_equal(env.picture(), expected)
    env.close()


@pytest.mark.parametrize("number, message", [(1e30, r"coordinates from -5\.\S+ to 5\.\S+ pixels, got \S+\.$"),
                                             (np.nan, "got nan; state holds nan"), (np.inf, "state holds inf")])  # fmt: skip
@pytest.mark.parametrize("name", ["WarpCartPole-v1", "WarpMountainCar-v0"])
def test_a_shape_too_far_away_is_refused_and_leaves_later_pictures_alone(name, number, message):
    env = gymnasium.make_vec(name, 2, device="cpu", array="numpy").unwrapped
    env.reset(seed=1)
    expected, state = env.picture(), env.get_state()["state"]
    env.set_state({"state": np.where(np.arange(2)[:, None] == 1, np.float32(number), state)})
    with pytest.raises(ParameterError, match=f"{name}: world 1 cannot be drawn: .*{message}"):
        env.picture()
    env.set_state({"state": state})
    np.testing.assert_array_equal(env.picture(), expected)
    env.close()


def test_trails_do_not_hold_a_position_that_could_not_be_drawn():
    env = gymnasium.make_vec("WarpTag-v0", 1, device="cpu", array="numpy", num_taggers=1, num_runners=1).unwrapped
    env.reset(seed=1)
    state = env.get_state("loc_x", "t")
    env.set_state({"loc_x": np.full((1, 2), np.nan, np.float32), "t": state["t"]})
    with pytest.raises(ParameterError, match="loc_x holds nan"):
        env.picture()
    env.set_state({**state, "t": state["t"] + 1})
    assert env.picture().any()
    env.close()


def test_an_error_of_a_renderer_that_the_state_does_not_explain_stays_as_it_is(monkeypatch):
    env = gymnasium.make_vec("WarpCartPole-v1", 1, device="cpu", array="numpy").unwrapped
    env.reset(seed=1)
    env.picture()
    monkeypatch.setattr(type(env._rendering._renderers.first(1)._renderers[0]), "frame", lambda self, state: int("a mistake"))
    with pytest.raises(ValueError, match="invalid literal") as raised:
        env.picture()
    assert not isinstance(raised.value, ParameterError)
    env.close()


def test_a_world_that_is_not_drawn_may_hold_large_numbers():
    env = gymnasium.make_vec("WarpCartPole-v1", 3, device="cpu", array="numpy").unwrapped
    env.reset(seed=1)
    state = env.get_state()["state"]
    state[2, 0] = 1e30
    env.set_state({"state": state})
    env.picture(2)
    with pytest.raises(ParameterError, match="world 2 cannot be drawn"):
        env.picture(3)
    env.close()


@pytest.mark.parametrize("worlds", [0, -1, 1.5, "4", None, 1001])
def test_an_unsuitable_number_of_worlds_raises_an_error(worlds):
    env = gymnasium.make_vec("WarpCartPole-v1", 2, device="cpu", array="numpy").unwrapped
    env.reset(seed=1)
    with pytest.raises(ParameterError, match="worlds must be an integer from 1 to 1000, got"):
        env.picture(worlds)
    env.close()


def test_a_picture_before_the_first_reset_raises_an_error():
    env = gymnasium.make_vec("WarpCartPole-v1", 2, device="cpu", array="numpy").unwrapped
    with pytest.raises(SequenceError):
        env.picture()
    env.close()
