"""The simulation of many GPUs beside plain sums, formulas and brute force, and the page that shows its numbers."""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import scale_out  # noqa: E402
from scale_out import FLOAT, Link  # noqa: E402

from tools.docs import scale_out_table  # noqa: E402

SLOW, FAST = Link(3e-6, 1e9), Link(5e-7, 1e11)


def numbers(*shape):
    return np.random.default_rng(1).integers(-99, 99, shape).astype(float)


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
def test_a_ring_gives_each_rank_the_sum_in_the_time_of_the_formula(ranks):
    values = numbers(ranks, 5 * ranks)
    summed, seconds = scale_out.ring(values, [SLOW] * ranks)
    np.testing.assert_array_equal(summed, np.broadcast_to(values.sum(0), values.shape))
    assert seconds == pytest.approx(2 * (ranks - 1) * (3e-6 + FLOAT * 5 / 1e9))
    assert seconds == pytest.approx(scale_out.ring_seconds(ranks, FLOAT * 5 * ranks, SLOW))


@pytest.mark.parametrize("slow", [(0,), (2, 5), (0, 1, 2)])
def test_a_ring_of_unlike_links_takes_the_longest_way_of_a_part(slow):
    """By brute force over the ranks where a part may begin: it crosses ``2 (P - 1)`` links in a row."""
    links = [SLOW if rank in slow else FAST for rank in range(6)]
    summed, seconds = scale_out.ring(numbers(6, 12), links)
    ways = [sum(links[(first + hop) % 6].seconds(FLOAT * 2) for hop in range(10)) for first in range(6)]
    assert seconds == pytest.approx(max(ways))
    np.testing.assert_array_equal(summed, np.broadcast_to(numbers(6, 12).sum(0), (6, 12)))


@pytest.mark.parametrize("ranks", [1, 2, 8, 16])
def test_doubling_gives_each_rank_the_sum_in_a_logarithm_of_messages(ranks):
    values = numbers(ranks, 7)
    summed, seconds = scale_out.doubling(values, SLOW)
    np.testing.assert_array_equal(summed, np.broadcast_to(values.sum(0), values.shape))
    assert seconds == pytest.approx(math.log2(ranks) * (3e-6 + FLOAT * 7 / 1e9))


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (2, 4), (8, 8)])
def test_two_levels_give_each_rank_the_sum_in_the_time_of_the_formula(nodes, gpus):
    values = numbers(nodes, gpus, 3 * gpus)
    summed, seconds = scale_out.two_levels(values, FAST, SLOW)
    np.testing.assert_array_equal(summed, np.broadcast_to(values.sum((0, 1)), values.shape))
    inside = scale_out.ring(values[0], [FAST] * gpus)[1]
    between = scale_out.doubling(values[:, 0, :3], SLOW)[1]
    assert seconds == pytest.approx(inside + between)
    assert seconds == pytest.approx(scale_out.two_level_seconds(nodes, gpus, FLOAT * 3 * gpus, FAST, SLOW))


def test_efficiency_is_the_share_of_the_iteration():
    assert scale_out.efficiency(1, 1e-3, 1e4, 16) == 1.0
    each = scale_out.all_reduce_seconds(64, 1e4)
    assert each == pytest.approx(scale_out.LAUNCH_S + scale_out.two_level_seconds(8, 8, 1e4, scale_out.NVLINK, scale_out.NETWORK))
    assert scale_out.efficiency(64, 1e-3, 1e4, 16) == pytest.approx(1 / (1 + 16e3 * each))
    assert scale_out.all_reduce_seconds(8, 1e4) == scale_out.LAUNCH_S + scale_out.ring_seconds(8, 1e4, scale_out.NVLINK)


@pytest.mark.parametrize(("batch", "noise_scale"), [(1, 1.0), (4, 1.0), (2, 16.0), (16, 4.0)])
def test_progress_of_a_step_is_that_of_simulated_steps(batch, noise_scale):
    simulated = scale_out.simulated_progress(batch, noise_scale, draws=40_000)
    assert simulated == pytest.approx(scale_out.step_progress(batch / noise_scale), rel=0.03)


def test_more_gpus_save_steps_up_to_the_noise_scale():
    for ranks, share in itertools.product((2, 8, 64), (0.01, 1.0, 100.0)):
        by_simulation = scale_out.step_progress(ranks * share) / scale_out.step_progress(share)
        assert scale_out.speed_up(ranks, share) == by_simulation
        assert scale_out.speed_up(ranks, share) < min(ranks, 1 + 1 / share)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("signal", [0.05, 0.5])
def test_drift_is_that_of_simulated_steps(local, signal):
    ranks, batch = 8, 4
    simulated = scale_out.simulated_drift(signal, ranks, batch, local, draws=40_000)
    expected = scale_out.drift(signal, batch if local else ranks * batch)
    assert simulated == pytest.approx(expected, abs=0.015)


def test_local_steps_are_shorter_by_the_root_of_the_ranks_where_noise_dominates():
    for ranks in (4, 64):
        assert scale_out.drift(1e-4, ranks) / scale_out.drift(1e-4, 1) == pytest.approx(math.sqrt(ranks), rel=1e-3)


def test_the_page_shows_the_present_numbers():
    assert scale_out_table.main(["--check"]) == 0


def test_gradients_are_those_of_the_networks():
    row = {"env": "WarpCartPole-v1", "env_kwargs": {}, "hidden_sizes": [64, 64]}
    actor, critic = (4 * 64 + 64 + 64 * 64 + 64 + 64 * outputs + outputs for outputs in (2, 1))
    assert scale_out_table.gradients(row) == [actor + critic]
