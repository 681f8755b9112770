"""Means over runs and their intervals, against tables and NumPy."""

import math

import numpy as np
import pytest

from gpu_vecenv.train.run_folder.intervals import MAX_POINTS, mean_curve, mean_interval, student_quantile

QUANTILES = {1: 12.7062, 2: 4.30265, 4: 2.77645, 9: 2.26216, 30: 2.04227, 499: 1.96473}
"""Value below which Student's t lies with a probability of 97.5 %, by degrees of freedom, from a printed table."""


@pytest.mark.parametrize("freedom", QUANTILES)
def test_quantiles_are_those_of_a_table(freedom):
    assert student_quantile(0.975, freedom) == pytest.approx(QUANTILES[freedom], rel=1e-5)


def test_an_interval_holds_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(3.0, 2.0, (4000, 5))
    intervals = [mean_interval(values) for values in draws]
    assert np.mean([abs(mean - 3.0) < half for mean, half in intervals]) == pytest.approx(0.95, abs=0.012)
    assert math.isnan(mean_interval([1.0])[1])


def test_a_curve_of_runs_with_equal_steps_is_the_mean_at_each_step():
    steps, values = np.arange(1, 41) * 32, np.random.default_rng(1).normal(size=(5, 40))
    curve = mean_curve([(steps, own) for own in values])
    assert curve.x.tolist() == steps.tolist()
    np.testing.assert_allclose(curve.mean, values.mean(0), rtol=1e-12)
    np.testing.assert_allclose(curve.half, QUANTILES[4] * values.std(0, ddof=1) / np.sqrt(5), rtol=1e-5)


def test_runs_with_other_steps_are_linear_between_them_and_count_where_they_have_values():
    curve = mean_curve([([10, 30], [1.0, 5.0]), ([20, 40], [4.0, 8.0]), ([], [])])
    assert curve.x.tolist() == [10, 20, 30, 40]
    assert curve.mean.tolist() == [1.0, 3.5, 5.5, 8.0]
    half = QUANTILES[1] * np.array([np.std([3, 4], ddof=1), np.std([5, 6], ddof=1)]) / np.sqrt(2)
    np.testing.assert_allclose(curve.half, [math.nan, *half, math.nan], rtol=1e-5)


def test_a_gap_between_runs_has_no_mean():
    curve = mean_curve([([1, 2], [1.0, 2.0]), ([4, 5], [4.0, 5.0]), ([3], [9.0])])
    assert curve.mean.tolist() == [1.0, 2.0, 9.0, 4.0, 5.0]
    assert len(mean_curve([]).x) == len(mean_curve([([], [])]).x) == 0


def test_a_long_curve_has_a_limited_number_of_points_and_both_ends():
    steps = np.arange(1, 10_001)
    curve = mean_curve([(steps, steps * 2.0), (steps, steps * 4.0)])
    assert (len(curve.x), curve.x[0], curve.x[-1]) == (MAX_POINTS, 1, 10_000)
    np.testing.assert_allclose(curve.mean, 3.0 * curve.x)
