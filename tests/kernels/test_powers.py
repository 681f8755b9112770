"""Exponentials, logarithms and powers of kernels, compared with NumPy's float64: bounds on errors, and bits of special values."""

import numpy as np
import pytest

from tests.kernels.test_math import SPECIAL, bits, floats, neighbours

BOUNDS = {"exp": 1.0, "log": 1.0, "log2": 1.5, "softplus": 2.0, "tanh": 1.5, "pow": 0.501}
"""Bounds on errors in ulps of the exact result, as lib/powers.h states them."""

ONE_ARGUMENT = [name for name in BOUNDS if name != "pow"]
NAN_BITS = 0x7FC00000

EDGES = neighbours([88.72284, -87.33655, -103.97208, 104, 89, 16.6, 20, 0.625, 9.01, 2**-126, 2**-12, 2**0.5, 0.5**0.5, 1], 500)
"""Arguments near which results overflow, become subnormal or 0, or saturate, or the code selects another formula."""


def exact(name, x, y=None):
    """The result in float64."""
    with np.errstate(all="ignore"):
        x = np.asarray(x, np.float64)
        if name == "softplus":
            return np.logaddexp(0, x)
        return np.power(x, np.asarray(y, np.float64)) if name == "pow" else getattr(np, name)(x)


def worst_error(call, name, *arguments):
    """Check results that are 0, infinite or NaN, to the bit, and return the largest error of the others in ulps."""
    result, wanted = call(name, *arguments), exact(name, *arguments)
    with np.errstate(over="ignore"):
        nearest = wanted.astype(np.float32)
    missing = np.isnan(nearest)
    assert (bits(result)[missing] == NAN_BITS).all()
    limit = np.isinf(nearest) | (nearest == 0)
    np.testing.assert_array_equal(bits(result)[limit], bits(nearest)[limit])
    result, wanted = (values[~missing & ~limit].astype(np.float64) for values in (result, wanted))
    ulp = np.ldexp(1.0, np.maximum(np.frexp(wanted)[1] - 24, -149))
    return (np.abs(result - wanted) / ulp).max(initial=0)


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_errors_stay_within_their_bounds(call, name):
    generator = np.random.default_rng(0)
    for x in (
        floats(500_000, 1),
        generator.uniform(-110, 95, 300_000),
        generator.uniform(-4, 4, 300_000),
        generator.uniform(0.5, 2, 300_000),
        np.concatenate([EDGES, -EDGES, SPECIAL]),
    ):
        assert worst_error(call, name, x.astype(np.float32)) < BOUNDS[name]


@pytest.mark.in_ci
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_errors_stay_within_their_bounds_at_every_97th_float(call, name):
    worst = 0.0
    for start in range(0, 2**32, 97 * 2**18):
        x = np.arange(start, min(start + 97 * 2**18, 2**32), 97, dtype=np.int64).astype(np.uint32).view(np.float32)
        worst = max(worst, worst_error(call, name, x))
    assert 0.8 * BOUNDS[name] < worst < BOUNDS[name], "the bound is exceeded or looser than needed"


def test_powers_are_rounded_like_exact_results(call):
    """Any floats; results of every size; bases next to 1 with large exponents; negative bases with integer exponents."""
    generator = np.random.default_rng(1)
    sizes = np.exp(generator.uniform(-85, 85, 300_000)).astype(np.float32)
    near = neighbours([1.0], 150_000)
    near = near[near != 1]
    for base, exponent in (
        (floats(500_000, 2), floats(500_000, 3)),
        (sizes, generator.uniform(-110, 95, len(sizes)) / np.log(sizes.astype(np.float64))),
        (near, generator.uniform(-110, 95, len(near)) / np.log(near.astype(np.float64))),
        (-generator.uniform(0, 20, 300_000), generator.integers(-40, 41, 300_000)),
        (generator.uniform(0, 4, 300_000), generator.uniform(-4, 4, 300_000)),
    ):
        rows = min(len(base), len(exponent))
        assert worst_error(call, "pow", base[:rows].astype(np.float32), exponent[:rows].astype(np.float32)) < BOUNDS["pow"]


def test_powers_of_special_values_equal_numpys(call):
    """Each pair of zeros, infinities, NaN, and odd, even and broken exponents, up to where all floats are even."""
    odd = np.array([3, -3, 5, 2**23 - 1, 2**24 - 1, 1 - 2**24, 2**24, 2**24 + 2, 2**22 + 0.5, 2**23 - 0.5, 2.5, -2.5, 2, -2])
    values = np.concatenate([SPECIAL, odd, neighbours([1, -1], 1)]).astype(np.float32)
    x, y = np.stack(np.meshgrid(values, values), -1).reshape(-1, 2).T
    assert worst_error(call, "pow", x, y) < BOUNDS["pow"]


def test_exact_results_are_exact(call):
    exponents = np.arange(-149, 128)
    np.testing.assert_array_equal(call("log2", np.ldexp(np.float32(1), exponents)), exponents)
    np.testing.assert_array_equal(call("pow", np.full(277, 2.0), exponents), np.ldexp(np.float32(1), exponents))
    x = floats(50_000, 4)
    for exponent, wanted in ((1, x), (0, np.ones_like(x))):
        np.testing.assert_array_equal(bits(call("pow", x, np.full_like(x, exponent))), bits(wanted))
    for name, at, wanted in (("exp", 0, 1), ("log", 1, 0), ("softplus", -np.inf, 0), ("tanh", np.inf, 1)):
        assert call(name, [at])[0] == wanted


def test_exponentials_with_one_factor_have_the_bits_of_the_others(call):
    x = np.concatenate([np.random.default_rng(6).uniform(-87, 88, 500_000), [-87.0, -0.0, 0.0, 88.0]]).astype(np.float32)
    np.testing.assert_array_equal(bits(call("exp_normal", x)), bits(call("exp", x)))
    assert np.isnan(call("exp_normal", [np.nan])).all()


def test_tanh_is_odd(call):
    x = np.concatenate([floats(50_000, 5), EDGES])
    np.testing.assert_array_equal(bits(call("tanh", -x)), bits(-call("tanh", x)))
