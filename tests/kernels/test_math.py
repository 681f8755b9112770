"""Arithmetic of kernels, compared with NumPy: error bounds in float64, bits in float32, and special values."""

import numpy as np
import pytest

SINCOS_BOUND = 8e-8
"""Bound on the absolute error of gv_sincos for |x| <= 8192, as lib/math.h states it."""

SPECIAL = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, 0.5, -0.5, 1.0, -1.0, 8388607.5, -8388607.5, 8388608.0, -8388608.0,
                    2.0**31, -(2.0**31), 3e9, -3e9, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan], np.float32)  # fmt: skip


def bits(array):
    return np.asarray(array, np.float32).view(np.int32)


def neighbours(values, reach=3):
    """float32 values, and the next ``reach`` numbers on either side of each."""
    start = np.asarray(values, np.float32).view(np.int32)
    return (start[:, None] + np.arange(-reach, reach + 1, dtype=np.int32)).ravel().view(np.float32)


def floats(count, seed):
    """Random float32 numbers of every size and sign, none of them NaN."""
    pattern = np.random.default_rng(seed).integers(-(2**31), 2**31, count).astype(np.int32).view(np.float32)
    return pattern[~np.isnan(pattern)]


def sincos_error(call, x):
    sine, cosine = call("sincos", x, outputs=2)
    exact = np.asarray(x, np.float64)
    return max(np.abs(sine - np.sin(exact)).max(), np.abs(cosine - np.cos(exact)).max())


def test_sincos_stays_within_its_bound(call):
    """Arguments over the whole range, over one turn, and around each multiple of pi / 4, where the code branches."""
    generator = np.random.default_rng(0)
    eighths = np.arange(1, 10430) * (np.pi / 4)
    for x in (
        generator.uniform(-8192, 8192, 300_000).astype(np.float32),
        generator.uniform(-2 * np.pi, 2 * np.pi, 300_000).astype(np.float32),
        neighbours(eighths),
        -neighbours(eighths),
        (2.0 ** generator.uniform(-126, 13, 100_000)).astype(np.float32),
        np.array([0.0, 8192.0, -8192.0], np.float32),
    ):
        assert sincos_error(call, x) < SINCOS_BOUND


@pytest.mark.in_ci
def test_sincos_stays_within_its_bound_at_every_float(call):
    """Every float32 from 2^-13 to 8192. For smaller ones the first terms of the series suffice; negative ones mirror exactly."""
    first, last = bits([2.0**-13, 8192.0])
    worst = 0.0
    for start in range(first, last + 1, 1 << 21):
        x = np.arange(start, min(start + (1 << 21), last + 1), dtype=np.int32).view(np.float32)
        worst = max(worst, sincos_error(call, x))
    assert 0.9 * SINCOS_BOUND < worst < SINCOS_BOUND, "the bound is exceeded or looser than needed"


def test_sincos_is_odd_and_even_to_the_bit(call):
    x = np.random.default_rng(1).uniform(0, 8192, 50_000).astype(np.float32)
    (sine, cosine), (sine_of_minus, cosine_of_minus) = call("sincos", x, outputs=2), call("sincos", -x, outputs=2)
    np.testing.assert_array_equal(bits(sine_of_minus), bits(-sine))
    np.testing.assert_array_equal(bits(cosine_of_minus), bits(cosine))


def test_gv_sincos_upright_gives_the_bits_of_gv_sincos(call):
    """Compares the polynomials alone, for the arguments that meet the condition of gv_sincos_upright."""
    generator = np.random.default_rng(6)
    x = np.concatenate([generator.uniform(-0.79, 0.79, 300_000), neighbours([np.pi / 4, -np.pi / 4], 50), SPECIAL,
                        2.0 ** generator.uniform(-149, 0, 50_000)]).astype(np.float32)  # fmt: skip
    with np.errstate(over="ignore"):
        x = x[np.abs(x) * np.float32(1.27323954473516) < 1]
    assert len(x) > 300_000 and 0.7853 < x.max() < 0.7854
    for some, others in zip(call("sincos_polynomials", x, outputs=2), call("sincos", x, outputs=2), strict=True):
        np.testing.assert_array_equal(bits(some), bits(others))


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_quotients_are_rounded_like_divisions(call, off):
    """The guess at the inverse is ``off`` ulps from the nearest float, as far as a GPU's own guess may be."""
    generator = np.random.default_rng(7)
    mantissas = np.concatenate([1 + np.arange(64) / 2.0**23, 2 - (1 + np.arange(64)) / 2.0**23, [1.5, 4 / 3, 5 / 3]])
    edges = np.stack(np.meshgrid(mantissas, mantissas), -1).reshape(-1, 2)
    x, y = np.concatenate([edges, generator.uniform(1, 2, (2_000_000, 2))]).T.astype(np.float32)
    x *= (2.0 ** generator.integers(-59, 59, len(x)) * generator.choice([-1, 1], len(x))).astype(np.float32)
    y *= (2.0 ** generator.integers(-59, 59, len(y)) * generator.choice([-1, 1], len(y))).astype(np.float32)
    largest = (bits(y) & 0x7FFFFF) == 0x7FFFFF  # GPUs give the inverse of this mantissa exactly
    guess = (bits(np.float32(1) / y) + np.where(largest, 0, off)).astype(np.int32).view(np.float32)
    np.testing.assert_array_equal(bits(call("quotient", x, y, guess)), bits(x / y))


def test_sincos_of_infinity_and_nan_is_nan(call):
    """Huge arguments only have to return; no accuracy is promised for them."""
    sine, cosine = call("sincos", SPECIAL, outputs=2)
    assert np.isnan(sine[-3:]).all() and np.isnan(cosine[-3:]).all()


def test_floor_equals_numpys(call):
    x = np.concatenate([floats(200_000, 2), neighbours(np.arange(1, 5000)), -neighbours(np.arange(1, 5000)), SPECIAL])
    np.testing.assert_array_equal(call("floor", x), np.floor(x))


def test_square_root_is_correctly_rounded(call):
    x = np.concatenate([np.abs(floats(200_000, 3)), np.arange(5000) ** 2, np.abs(SPECIAL)]).astype(np.float32)
    np.testing.assert_array_equal(bits(call("sqrt", x)), bits(np.sqrt(x.astype(np.float64))))


def test_absolute_value_equals_numpys(call):
    x = np.concatenate([floats(10_000, 4), SPECIAL])
    np.testing.assert_array_equal(call("abs", x), np.abs(x))


def test_modulo_equals_numpys_below_twice_the_divisor(call):
    generator = np.random.default_rng(5)
    y = np.concatenate([np.full(200_000, 2 * np.pi), generator.uniform(0.1, 100, 200_000)]).astype(np.float32)
    x = (y * generator.uniform(-2, 2, len(y))).astype(np.float32)
    inside = np.abs(x) < 2 * y
    x, y = x[inside], y[inside]
    np.testing.assert_array_equal(bits(call("mod", x, y)), bits(np.mod(x, y)))


@pytest.mark.parametrize("divisor", [2 * np.pi, 1.0, 0.1, 3.0])
def test_modulo_next_to_multiples_equals_numpys(call, divisor):
    """Multiples of the divisor and their neighbours, and negative numbers so small that the result is the divisor itself."""
    y = np.float32(divisor)
    near = neighbours([-y, y])
    tiny = -np.concatenate([neighbours([1e-7, 1e-20]), [1e-38, 1e-45]]).astype(np.float32)
    x = np.concatenate([near, tiny, np.nextafter(2 * y, 0, dtype=np.float32)[None], [0.0]]).astype(np.float32)
    result = call("mod", x, np.full_like(x, y))
    np.testing.assert_array_equal(bits(result), bits(np.mod(x, y)))
    assert (result >= 0).all() and (result <= y).all()
    assert (call("mod", tiny[-4:], np.full(4, y)) == y).all()


def test_modulo_of_large_numbers_is_off_by_at_most_one_rounding(call):
    generator = np.random.default_rng(6)
    y = generator.uniform(0.1, 100, 200_000).astype(np.float32)
    between = (y * generator.uniform(-1e4, 1e4, len(y))).astype(np.float32)
    multiples = y * generator.integers(-10_000, 10_001, len(y)).astype(np.float32)
    x = np.concatenate([between, multiples, *(np.nextafter(multiples, np.float32(end)) for end in (-np.inf, np.inf))])
    y = np.tile(y, 4)
    result, rounding = call("mod", x, y), np.maximum(np.spacing(np.abs(x)), np.spacing(y))
    assert (result >= 0).all() and (result <= y + rounding).all()
    error = np.abs(result - np.mod(x.astype(np.float64), y.astype(np.float64)))
    around = np.minimum(error, np.abs(error - y))  # a result just below the divisor counts as close to 0
    assert (around <= rounding).all()


def test_modulo_of_nan_and_infinity_is_nan(call):
    x = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert np.isnan(call("mod", x, np.ones(3))).all()


def test_min_and_max_equal_numpys(call):
    x, y = floats(50_000, 7)[:40_000], floats(50_000, 8)[:40_000]
    np.testing.assert_array_equal(call("min", x, y), np.minimum(x, y))
    np.testing.assert_array_equal(call("max", x, y), np.maximum(x, y))


def test_clamp_equals_numpys_clip(call):
    generator = np.random.default_rng(9)
    lo, hi = np.sort(generator.normal(0, 1, (2, 40_000)), axis=0).astype(np.float32)
    x = generator.normal(0, 2, 40_000).astype(np.float32)
    np.testing.assert_array_equal(call("clamp", x, lo, hi), np.clip(x, lo, hi))
    infinite = np.array([np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(call("clamp", infinite, [-1, -1], [2, 2]), [2, -1])


@pytest.mark.parametrize("name", ["min", "max"])
def test_min_and_max_are_nan_if_the_first_operand_is(call, name):
    assert np.isnan(call(name, [np.nan], [1.0]))[0]
    assert call(name, [1.0], [np.nan])[0] == 1.0


def test_clamp_keeps_nan(call):
    assert np.isnan(call("clamp", [np.nan], [0.0], [1.0]))[0]
