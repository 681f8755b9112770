"""One step of each classic env, compared with Gymnasium's class from thousands of states. A tool compares a million."""

import dataclasses
import json

import numpy as np
import pytest

from tools.gymnasium import compare as compare_gymnasium
from tools.gymnasium import upstream_tests
from tools.gymnasium.cases import CASES, spacing, step_gymnasium
from tools.gymnasium.compare import compare

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@cases
def test_steps_from_random_states_match_gymnasium(case):
    result = compare(case, *case.random(10_000, seed=7))
    assert result.wrong() == []
    assert len(np.unique(result.theirs[:, 0])) > 9_000
    if case.name.startswith("Pendulum"):
        assert not result.ended.any()
    else:
        assert 0.02 < result.ended.mean() < 0.5


@cases
def test_steps_next_to_an_end_or_a_wall_match_gymnasium(case):
    states, actions = case.edges(500, seed=8)
    result = compare(case, states, actions)
    assert result.wrong() == []
    if case.name.startswith("Pendulum"):
        assert len(states) == 0
        return
    assert len(states) > 400
    assert 0.2 < result.ended.mean() < 0.9
    if case.dtype == "float64":  # rounding decides the flag in some of these states
        assert result.flags.any()
    assert np.abs(result.past[result.flags]).max(initial=0) < 1
    if case.wall is not None:
        assert (result.ours[:, 0] == np.float32(case.wall)).sum() > 50


@cases
def test_the_float64_step_that_measures_rounding_equals_gymnasiums(case):
    states, actions = case.random(2000, seed=9)
    states = (states - np.mean([case.low, case.high], axis=0)) / 8 + np.mean([case.low, case.high], axis=0)
    states = states.astype(np.float32)  # slow and far from walls, so that no position or speed is clipped
    theirs, ended = step_gymnasium(case, states, actions)
    float64_step = case.step(states.T.astype(np.float64), actions.reshape(-1).astype(np.float64)).T
    np.testing.assert_allclose(float64_step, theirs[:, : case.size + 1], rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(case.past(float64_step.T) > 0, ended)


@cases
def test_a_difference_beyond_the_limits_is_reported(case):
    result = compare(case, *case.random(300, seed=10))
    for i, (name, limit) in enumerate(zip(case.fields, case.limits, strict=True)):
        worse = result.difference.copy()
        worse[5, i] = 1.01 * max(limit, 1) * result.rounding[5, i]
        (told,) = dataclasses.replace(result, difference=worse).wrong()
        assert told.startswith(f"{case.name}: {name} is off by ")


def test_flags_that_differ_far_from_the_threshold_are_reported():
    result = compare(CASES["CartPole"], *CASES["CartPole"].random(300, seed=11))
    flags = np.zeros(300, bool)
    flags[np.abs(result.past).argmax()] = True
    (told,) = dataclasses.replace(result, flags=flags).wrong()
    assert "terminations differ" in told


def test_a_car_stopped_away_from_the_wall_is_reported():
    result = compare(CASES["MountainCar"], *CASES["MountainCar"].random(300, seed=12))
    walls = np.zeros(300, bool)
    walls[result.ours[:, 0].argmax()] = True
    assert all("a car was stopped" in told for told in dataclasses.replace(result, walls=walls).wrong())
    assert dataclasses.replace(result, walls=walls).wrong()


def test_spacing_is_the_distance_to_the_next_float32():
    values = np.array([1.0, 2.4, 0.0, 1e-3], np.float32)
    np.testing.assert_array_equal(spacing(-values), np.nextafter(values, np.float32(9)) - values)


def test_the_document_shows_the_data():
    text = compare_gymnasium.DOCUMENT.read_text()
    assert compare_gymnasium.document(text, json.loads(compare_gymnasium.DATA.read_text())) == text
    assert upstream_tests.document(text, json.loads(upstream_tests.DATA.read_text())) == text


def test_the_recorded_comparison_covers_a_million_states_within_the_limits():
    data = json.loads(compare_gymnasium.DATA.read_text())
    assert [case["case"] for case in data["cases"]] == list(CASES)
    for case in data["cases"]:
        assert case["random_states"]["count"] == 1_000_000
        for field, limit in zip(case["fields"], CASES[case["case"]].limits, strict=True):
            assert field["max_roundings"] <= field["limit_roundings"] == limit
