"""Pictures of RICE-N, measured in the colours of their pixels."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.rice.render import (
    ARENA,
    REGIONS,
    Economy,
    Renderer,
    chart,
    climate_tile,
    share_of_scale,
    tile,
    two_digits,
)
from gpu_vecenv.render.expressions import Now, Number
from gpu_vecenv.render.style import DARK, make_style


def played(steps, **params):
    """The states of world 0 of an episode with random actions, from the start on, and the parameters."""
    env = gymnasium.make_vec("WarpRice-v0", num_envs=1, device="cpu", array="numpy", **params).unwrapped
    env.reset(seed=0)
    states = [env.get_state()]
    env.action_space.seed(0)
    for _ in range(steps):
        env.step(env.action_space.sample())
        states.append(env.get_state())
    return [{name: values[0] for name, values in state.items()} for state in states], env.params


def emissions_in(state, levels):
    """Emissions of all regions."""
    economy = Economy(levels, False)
    return np.array([Now(state).value(economy.emissions(region).json) for region in range(REGIONS)])


def count(picture, colour, box):
    left, top, right, bottom = (round(edge) for edge in box)
    return int((picture[top:bottom, left:right] == colour).all(-1).sum())


@pytest.mark.parametrize(("theme", "negotiates"), [("dark", True), ("light", False)])
def test_a_picture_has_all_curves_of_its_episode(theme, negotiates):
    states, params = played(36 if negotiates else 12, negotiation_on=negotiates)
    style = make_style(theme, 1.0)
    renderer, palette = Renderer(params, style), style.palette
    first, *_, last = [renderer.frame(state) for state in states]
    assert first.shape == last.shape == (688, 960, 3) and first.dtype == np.uint8
    for region in range(REGIONS):
        for colour in (palette.vermilion, palette.green, palette.sky):
            assert count(last, colour, tile(region)) > 12
    assert count(last, palette.mark, climate_tile()) > 2 * count(first, palette.mark, climate_tile())
    assert count(first, palette.sky, tile(0)) == 0  # no tariffs yet
    words = [entry.word for entry in renderer.legend]
    expected = ["emissions, Gt/year", "consumption, trillion USD/year", "mean tariff, to 100 %", "mitigation, to 100 %"]
    assert words[:4] == expected
    assert (words[4:] == ["agreed mitigation"]) == negotiates


def test_emissions_are_those_that_reach_the_atmosphere():
    states, params = played(20, autoreset_mode="disabled")
    for before, after in zip(states, states[1:], strict=False):
        carbon, n = before["carbon"].astype(float), int(after["period"])
        arrived = (after["carbon"][0] - 0.88 * carbon[0] - 0.196 * carbon[1]) / 1.36388
        land = 2.6 * 0.999 ** (n - 1)
        emissions = emissions_in(after, params["num_discrete_action_levels"])
        assert emissions.sum() + land == pytest.approx(arrived, rel=2e-5, abs=2e-4)


def test_the_curves_of_an_episode_begin_anew():
    states, params = played(8)
    fresh, used = Renderer(params), Renderer(params)
    for state in states:
        used.frame(state)
    np.testing.assert_array_equal(used.frame(states[0]), fresh.frame(states[0]))
    other = {**states[8], "episode": np.int32(1)}
    np.testing.assert_array_equal(used.frame(other), Renderer(params).frame(other))


def test_a_higher_tariff_has_a_higher_column_in_its_year():
    states, params = played(2)
    counts = []
    for level in (1, 5, 9):
        renderer = Renderer(params)
        renderer.frame({**states[1], "tariffs": np.full((REGIONS, REGIONS), 5, np.uint8)})
        last = renderer.frame({**states[2], "tariffs": np.full((REGIONS, REGIONS), level, np.uint8)})
        counts.append(count(last, DARK.sky, tile(4)))
    only = Renderer(params).frame({**states[1], "tariffs": np.full((REGIONS, REGIONS), 5, np.uint8)})
    first = count(only, DARK.sky, tile(4))
    assert first < counts[0] < counts[1] < counts[2] and counts[1] == pytest.approx(2 * first, rel=0.3)


def test_tariffs_are_those_that_the_region_sets():
    states, params = played(1)
    tariffs = np.zeros((REGIONS, REGIONS), np.uint8)
    tariffs[4] = 9
    picture = Renderer(params).frame({**states[1], "tariffs": tariffs})
    assert count(picture, DARK.sky, tile(4)) > 12 and count(picture, DARK.sky, tile(5)) == 0


def test_the_bar_of_mitigation_is_the_rate():
    states, params = played(1)
    lengths = []
    for level in (0, 3, 6, 10):
        picture = Renderer(params).frame({**states[1], "mitigation": np.full(REGIONS, level, np.uint8)})
        row = picture[round(tile(4)[3]) - 10, round(chart(4)[0]) : round(chart(4)[2])]
        lengths.append(int((row == DARK.ink).all(-1).sum()))
    width = chart(4)[2] - chart(4)[0]
    np.testing.assert_allclose(lengths, [0, 0.3 * width, 0.6 * width, width], atol=2)


def test_tiles_fill_the_arena_and_do_not_overlap():
    boxes = [*(tile(region) for region in range(REGIONS)), climate_tile()]
    covered = np.zeros((ARENA, ARENA), int)
    for left, top, right, bottom in boxes:
        covered[round(top) : round(bottom), round(left) : round(right)] += 1
    assert covered.max() == 1 and covered.mean() > 0.8


@pytest.mark.parametrize(("value", "share"), [(0, 0), (0.001, 0), (0.01, 0), (0.1, 0.25), (1, 0.5), (10, 0.75), (1e3, 1)])
def test_heights_are_logarithmic(value, share):
    assert Now({}).value(share_of_scale(value).json) == pytest.approx(share)


@pytest.mark.parametrize(("value", "text"), [(0, "0.00"), (0.123, "0.12"), (1.26, "1.3"), (41.7, "42"), (123.4, "123")])
def test_values_have_two_digits(value, text):
    texts = [format(value, written.format) for written, when in two_digits(Number(value)) if Now({}).value(when.json)]
    assert texts == [text]


def test_a_curve_ends_at_the_height_of_its_value():
    states, params = played(3)
    renderer, region = Renderer(params), 15
    for state in states:
        picture = renderer.frame(state)
    left, top, right, bottom = chart(region)
    across = left + 3 / 20 * (right - left)
    value = emissions_in(states[-1], params["num_discrete_action_levels"])[region]
    part = picture[round(top) - 4 : round(bottom) + 4, round(across) : round(right)]
    rows, columns = np.nonzero((part == DARK.vermilion).all(-1))
    share = Now({}).value(share_of_scale(value).json)
    assert rows.mean() + round(top) - 3.5 == pytest.approx(bottom - share * (bottom - top), abs=2)
    assert columns.max() < 5  # nothing of later years
