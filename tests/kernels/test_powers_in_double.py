"""Exponentials, logarithms and powers of doubles, compared with NumPy's extended precision and with mpmath."""

import numpy as np
import pytest

mpmath = pytest.importorskip("mpmath")

NAN_BITS = 0x7FF8000000000000
EXACT = {"exp": np.exp, "log": np.log, "pow": np.power}
SIZES = [0, 1, 2, 0.5, 3, 2.5, 5e-324, 2.0**-1022, 1.7976931348623157e308, 2.0**52 - 0.5, 2.0**53 - 1, 2.0**53, np.inf, np.nan]
SPECIAL = np.array(SIZES + [-size for size in SIZES])


@pytest.fixture
def in_double(call):
    """Functions of lib/powers_in_double.h over arrays, by their names without ``_in_double``."""
    return lambda name, *arguments: call(f"{name}_in_double", *arguments, dtype=np.float64)


def bits(values):
    return np.ascontiguousarray(values).view(np.uint64)


def doubles(count, seed):
    """Doubles of any bits, infinities, NaN and subnormal numbers among them."""
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64).view(np.float64)


def neighbours(values, count):
    """Each value with ``count`` doubles on both sides."""
    at = np.asarray(values, np.float64).view(np.int64)[:, None] + np.arange(-count, count + 1)
    return at.reshape(-1).view(np.float64)


def worst_error(in_double, name, *arguments):
    """Check results that are 0, infinite or NaN, to the bit, and return the largest error of the others in ulps."""
    arguments = [np.asarray(one, np.float64) for one in arguments]
    result = in_double(name, *arguments)
    with np.errstate(all="ignore"):
        wanted = EXACT[name](*(one.astype(np.longdouble) for one in arguments))
        nearest = wanted.astype(np.float64)
    missing = np.isnan(nearest)
    assert (bits(result)[missing] == NAN_BITS).all()
    limit = np.isinf(nearest) | (nearest == 0)
    np.testing.assert_array_equal(bits(result)[limit], bits(nearest)[limit])
    result, wanted = (values[~missing & ~limit].astype(np.longdouble) for values in (result, wanted))
    ulp = np.ldexp(np.longdouble(1), np.maximum(np.frexp(wanted)[1] - 53, -1074))
    return float((np.abs(result - wanted) / ulp).max(initial=0))


def test_extended_precision_is_longer_than_double():
    """The other tests measure errors with it."""
    assert np.finfo(np.longdouble).nmant >= 63


def test_exponentials_stay_within_their_bound(in_double):
    generator = np.random.default_rng(0)
    edges = neighbours([709.782712893384, -708.3964185322641, -744.4400719213812, -745.1332191019411, 710, np.log(2) / 2], 300)
    wide, narrow = generator.uniform(-750, 715, 100_000), generator.uniform(-1, 1, 100_000)
    for x in (doubles(100_000, 1), wide, narrow, edges, -edges, SPECIAL):
        assert worst_error(in_double, "exp", x) < 1


def test_logarithms_stay_within_their_bound(in_double):
    generator = np.random.default_rng(0)
    edges = neighbours([1, 0.5**0.5, 2**0.5, 2, 2.0**-1022, 1e300], 300)
    near, subnormal = generator.uniform(0.5, 2, 100_000), generator.uniform(0, 5e-320, 1000)
    for x in (np.abs(doubles(100_000, 1)), near, subnormal, edges, SPECIAL):
        assert worst_error(in_double, "log", x) < 1


def test_powers_stay_within_their_bound(in_double):
    """Any doubles; results of every size; bases next to 1 with large exponents; negative bases with integer exponents."""
    generator = np.random.default_rng(1)
    sizes = np.exp(generator.uniform(-700, 700, 60_000))
    near = neighbours([1.0], 20_000)
    near = near[near != 1]
    for x, y in (
        (doubles(60_000, 2), doubles(60_000, 3)),
        (sizes, generator.uniform(-750, 715, len(sizes)) / np.log(sizes)),
        (near, generator.uniform(-750, 715, len(near)) / np.log(near)),
        (-generator.uniform(0, 20, 20_000), generator.integers(-40, 41, 20_000)),
        (generator.uniform(0, 4, 60_000), generator.uniform(-4, 4, 60_000)),
        np.stack(np.meshgrid(SPECIAL, SPECIAL), -1).reshape(-1, 2).T,
    ):
        assert worst_error(in_double, "pow", x, y) < 1


def test_errors_against_fifty_digits(in_double):
    generator = np.random.default_rng(2)
    x, y = generator.uniform(0.01, 30, 300), generator.uniform(-200, 200, 300)
    with mpmath.workdps(50):
        for name, given in (("exp", (y,)), ("log", (x,)), ("pow", (x, y))):
            exact = {"exp": mpmath.exp, "log": mpmath.log, "pow": mpmath.power}[name]
            for got, *arguments in zip(in_double(name, *given), *given, strict=True):
                wanted = exact(*map(mpmath.mpf, arguments))
                assert abs(mpmath.mpf(got) - wanted) < float(np.spacing(abs(got)))


def test_exact_results_are_exact(in_double):
    exponents = np.arange(-1074, 1024)
    np.testing.assert_array_equal(in_double("pow", np.full(len(exponents), 2.0), exponents), np.ldexp(1.0, exponents))
    x = doubles(20_000, 4)
    x = x[~np.isnan(x)]
    for exponent, wanted in ((1, x), (0, np.ones_like(x))):
        np.testing.assert_array_equal(bits(in_double("pow", x, np.full_like(x, exponent))), bits(wanted))
    assert in_double("exp", [0.0])[0] == 1 and bits(in_double("log", [1.0]))[0] == 0
