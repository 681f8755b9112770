"""Pictures of COVID-19 and the economy, measured in the colours of their pixels."""

import numpy as np
import pytest

from gpu_vecenv.envs.covid.render import CODES, MAP, PLACES, Renderer
from gpu_vecenv.envs.covid.spec import SPEC, calibration
from gpu_vecenv.render.style import DARK, LIGHT, make_style, mix

POPULATION = np.array(calibration()["state_population"], np.float64)
NAMES = calibration()["state_names"]


def tile_colour(palette, level):
    return mix(palette.vermilion, palette.surface, level / 10)


def make(theme="dark", **params):
    return Renderer(SPEC.resolve(params), make_style(theme))


def make_state(level=1, deaths=0.0, unemployed=0.0, subsidy=0, t=0, episode=0):
    """State with the same values, shares of the population, in all states; an array (51,) differs between states."""
    levels = np.zeros((30, 51), np.uint8)
    levels[t % 30] = level
    share = np.zeros(51)
    return {
        "infected": np.float32(0.01 * POPULATION),
        "deaths": np.float32((share + deaths) * POPULATION),
        "unemployed": np.float32((share + unemployed) * POPULATION),
        "levels": levels,
        "subsidy_level": np.int32(subsidy),
        "t": np.int32(t),
        "episode": np.int32(episode),
    }


def count(picture, colour):
    return int((picture == colour).all(axis=2).sum())


def tile(picture, name):
    """Pixels of a state's tile, found by its name."""
    x, y = PLACES[CODES[NAMES.index(name)]]
    left, top = 23 + 54 * x, 20 + 54 * y
    return picture[top : top + 50, left : left + 50]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_frame_and_a_scene_have_their_shapes(theme):
    renderer, state = make(theme), make_state(5, 0.001, 0.1, 3, 12)
    frame, scene = renderer.frame(state), renderer.scene(state)
    assert (frame.shape, scene.shape) == ((500, 1020, 3), (548, 640, 3))
    assert frame.dtype == scene.dtype == np.uint8
    np.testing.assert_array_equal(scene[48:], frame[:, :MAP])
    assert [entry.word for entry in renderer.legend] == ["open, 1", "closed, 10", "deaths, to 1 %", "unemployed, to 25 %"]


def test_every_state_has_a_tile_of_its_own():
    assert len(CODES) == len(set(CODES)) == 51 and set(PLACES) == set(CODES)
    assert len(set(PLACES.values())) == 51
    initials = {"DC": "District of Columbia"}
    for code, name in zip(CODES, NAMES, strict=True):
        assert initials.get(code, name) == name and code[0] == name[0]
        assert code[1].lower() in name.lower()


@pytest.mark.parametrize(
    ("west", "east"), [("Oregon", "New York"), ("California", "Colorado"), ("Iowa", "Ohio"), ("Texas", "Florida")]
)
def test_states_lie_from_west_to_east(west, east):
    assert PLACES[CODES[NAMES.index(west)]][0] < PLACES[CODES[NAMES.index(east)]][0]


@pytest.mark.parametrize(("north", "south"), [("Washington", "California"), ("Maine", "Florida"), ("Minnesota", "Texas")])
def test_states_lie_from_north_to_south(north, south):
    assert PLACES[CODES[NAMES.index(north)]][1] < PLACES[CODES[NAMES.index(south)]][1]


@pytest.mark.parametrize(("theme", "palette"), [("dark", DARK), ("light", LIGHT)])
@pytest.mark.parametrize("name", ["Alabama", "California", "District of Columbia", "Wyoming"])
def test_the_tile_of_a_state_has_the_colour_of_its_stringency(theme, palette, name):
    levels = np.where(np.array(NAMES) == name, 10, 2)
    picture = make(theme).frame(make_state(levels, t=31))
    assert count(tile(picture, name), tile_colour(palette, 10)) > 1000
    assert count(picture[:, :MAP], tile_colour(palette, 10)) == count(tile(picture, name), tile_colour(palette, 10))
    assert count(picture[:, :MAP], tile_colour(palette, 2)) > 50 * 1000


def test_the_bars_of_a_state_grow_with_deaths_and_unemployed():
    widths = []
    for share in (0.0, 0.25, 0.5, 1.0, 2.0):
        picture = make().frame(make_state(deaths=0.01 * share, unemployed=0.25 * share))
        bars = tile(picture, "Texas")[30], tile(picture, "Texas")[41]  # rows within the two bars
        widths.append([(bars[0] == DARK.ink).all(axis=1).sum(), (bars[1] == DARK.sky).all(axis=1).sum()])
    np.testing.assert_allclose(widths, [[38 * min(1, share)] * 2 for share in (0.0, 0.25, 0.5, 1.0, 2.0)], atol=2)


def test_the_bar_below_the_map_is_the_subsidy():
    lengths = [(make().frame(make_state(subsidy=level))[477, :MAP] == DARK.green).all(axis=1).sum() for level in (0, 5, 20)]
    np.testing.assert_allclose(lengths, [0, 463 / 4, 463], atol=3)


def test_curves_grow_with_time_and_end_with_the_episode():
    renderer = make(episode_length=100)
    panel = slice(MAP, None)
    blue = [count(renderer.frame(make_state(unemployed=0.05, t=t))[:, panel], DARK.sky) for t in range(0, 100, 10)]
    assert blue[-1] > blue[4] + 80 > blue[1] + 160
    again = make_state(unemployed=0.05, t=50, episode=1)
    np.testing.assert_array_equal(renderer.frame(again), make(episode_length=100).frame(again))


def test_drawing_a_state_again_gives_the_same_frame():
    once, often = make(), make()
    for t in range(4):
        state = make_state(3, 0.001 * t, 0.1, t, t)
        expected = once.frame(state)
        for _ in range(2):
            np.testing.assert_array_equal(often.frame(state), expected)


def test_the_date_follows_the_start_date():
    """Day 0 of a later start is the same date as day 10 of an earlier one; the rest of the title differs."""
    early, late = make(start_date="2020-03-22"), make(start_date="2020-04-01")
    pictures = early.frame(make_state(t=10)), late.frame(make_state(t=0)), late.frame(make_state(t=1))
    dates = [picture[62:88, MAP : MAP + 150] for picture in pictures]
    np.testing.assert_array_equal(dates[0], dates[1])
    assert (dates[1] != dates[2]).any()
