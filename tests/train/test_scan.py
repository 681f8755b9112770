"""The segmented scan and sums of fixed order, compared with loops in float64."""

import math

import numpy as np
import pytest
import torch
from dispatched import assert_same_bits, operations
from hypothesis import given
from hypothesis import strategies as st

from gpu_vecenv.train.returns.scan import continues, scan
from gpu_vecenv.train.returns.sums import BLOCK, fixed_sum

NUMBERS = st.floats(-8, 8, width=32)
DECAYS = st.sampled_from([0.0, 0.5, 0.99, 1.0, -1.0])
ANY = st.sampled_from([1.0, -2.0, math.nan, math.inf])


def slow_scan(b, a, reverse, initial):
    """The recurrence of one row, in Python's floats."""
    steps = list(zip(b, a, strict=True))
    y, result = initial, []
    for term, decay in reversed(steps) if reverse else steps:
        y = term if decay == 0.0 else term + decay * y
        result.append(y)
    return result[::-1] if reverse else result


def column(values):
    return torch.tensor(values, dtype=torch.float32).unsqueeze(1)


@given(steps=st.lists(st.tuples(NUMBERS, DECAYS), min_size=1, max_size=40), reverse=st.booleans(), initial=NUMBERS)
def test_a_scan_equals_the_recurrence(steps, reverse, initial):
    b, a = zip(*steps, strict=True)
    got = scan(column(b), column(a), reverse, torch.tensor([initial]))
    np.testing.assert_allclose(got[:, 0].double(), slow_scan(b, a, reverse, initial), rtol=1e-5, atol=1e-4)


@given(steps=st.lists(st.tuples(ANY, DECAYS), min_size=1, max_size=20), reverse=st.booleans(), initial=ANY)
def test_nothing_passes_a_cut(steps, reverse, initial):
    b, a = zip(*steps, strict=True)
    got = scan(column(b), column(a), reverse, torch.tensor([initial]))[:, 0]
    want = np.array(slow_scan(b, a, reverse, initial))
    np.testing.assert_array_equal(got.isfinite(), np.isfinite(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(got.double().numpy()[finite], want[finite], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_takes_any_axes_and_no_initial_value(reverse):
    g = torch.Generator().manual_seed(0)
    b, a = torch.randn(13, 2, 3, 4, generator=g), (torch.rand(13, 1, 3, 4, generator=g) - 0.2).clamp(min=0.0)
    before = b.clone(), a.clone()
    got = scan(b, a, reverse)
    assert torch.equal(b, before[0]) and torch.equal(a, before[1])
    for index in np.ndindex(2, 3, 4):
        want = slow_scan(b[:, *index].tolist(), a[:, 0, *index[1:]].tolist(), reverse, 0.0)
        np.testing.assert_allclose(got[:, *index].double(), want, rtol=1e-5, atol=1e-5)


def test_the_first_step_continues_what_came_before():
    ended = torch.tensor([[True], [False], [True], [True]])
    assert continues(ended)[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("reverse", [False, True])
def test_operations_of_a_scan_grow_with_the_logarithm_of_steps(reverse):
    def count(steps):
        return operations(lambda: scan(torch.ones(steps, 2), torch.ones(steps, 2), reverse, torch.ones(2)))

    assert count(1024) - count(512) == count(16) - count(8) <= 8


def test_a_scan_has_the_same_bits_for_any_number_of_threads():
    g = torch.Generator().manual_seed(1)
    b, a = torch.randn(50, 5000, generator=g), torch.rand(50, 5000, generator=g)
    assert_same_bits(lambda: [scan(b, a), scan(b, a, reverse=True)])


@pytest.mark.parametrize("rows", [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
def test_a_fixed_sum_is_the_sum(rows):
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(2)) + 1e4
    want = [math.fsum(x[:, i].tolist()) for i in range(3)]
    np.testing.assert_allclose(fixed_sum(x), want, rtol=1e-14)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_fixed_sum_has_the_same_bits_for_any_number_of_threads(width):
    x = torch.randn(200_003, width, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    assert_same_bits(lambda: [fixed_sum(x)])
