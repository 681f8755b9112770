// Exponentials, logarithms and powers of doubles. They give the same bits on every target, because they use only + - * /,
// comparisons and the bits of doubles. lib/powers.h includes this header.
//
// function                   result   largest error   special arguments
// gv_exp_in_double(x)        e^x      1 ulp           0 at -infinity
// gv_log_in_double(x)        ln x     1 ulp           -infinity at 0, NaN below
// gv_pow_in_double(x, y)     x^y      1 ulp           as pow() of C
//
// An ulp is the distance between neighbouring doubles at the size of the exact result, at least 2^-1074. Every double is a valid
// argument. A result that does not exist, or a result of NaN, is the NaN with the bits 0x7ff8000000000000. A result that is too
// large is infinite. Subnormal arguments and results keep the bounds.
//
// GPUs for consumers compute 64 times as slowly in double as in float. An exponential takes about 50 operations, a logarithm 50,
// a power 300.
#pragma once
#include "lib/math.h"

// double: special results.
GV_FN double gv_infinity_in_double() { return gv_double_from_bits(0x7ff0000000000000ull); }
// double: as above.
GV_FN double gv_nan_in_double() { return gv_double_from_bits(0x7ff8000000000000ull); }
// double: the sign bit is cleared.
GV_FN double gv_size_of_double(double x) { return gv_double_from_bits(gv_double_bits(x) & 0x7fffffffffffffffull); }

// ---- exponential ----------------------------------------------------------------------------------------------

// double: e^(x + low) for a small `low`, or 0 or infinity. x is n ln 2 + r. ln 2 has two parts, the first of 42 bits, so that its
// product with n is exact. The rounding error of r is kept. The series of e^r for |r| <= ln 2 / 2 has an error below 2^-57.
GV_FN double gv_exp_of_sum(double x, double low) {
    const double within = x > -746.0 ? (x < 710.0 ? x : 710.0) : -746.0;  // beyond, e^x is 0 or infinite; NaN becomes -746
    const double n = (within * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0;  // nearest integer, by 1.5 * 2^52
    const double high = within - n * 0.6931471805598903, rest = n * 5.497923018708371e-14 - (x == within ? low : 0.0);
    const double r = high - rest, lost = (high - r) - rest;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    const double power = 1.0 + (r + (p * r * r + lost));
    const gv_i32 whole = (gv_i32)n, half = whole >> 1;
    return power * gv_double_from_bits((gv_u64)(half + 1023) << 52) * gv_double_from_bits((gv_u64)(whole - half + 1023) << 52);
}

// double: e^x.
GV_FN double gv_exp_in_double(double x) { return x == x ? gv_exp_of_sum(x, 0.0) : gv_nan_in_double(); }

// ---- logarithm ------------------------------------------------------------------------------------------------

// double: x = mantissa 2^exponent, with the mantissa between sqrt(1/2) and sqrt(2), for a positive finite x.
GV_FN double gv_split_double(double x, double* exponent) {
    const bool subnormal = x < 2.2250738585072014e-308;
    const gv_u64 bits = gv_double_bits(subnormal ? x * 18014398509481984.0 : x) - 0x3fe6a09e667f3bcdull;  // of sqrt(1/2)
    *exponent = (double)((gv_i32)((gv_i64)bits >> 52) - (subnormal ? 54 : 0));
    return gv_double_from_bits((bits & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
}

// double: 2 artanh(s) / s - 2 as a series of z = s^2, without the first `2 z / 3` and `2 z^2 / 5`, divided by z^3; z < 0.0295.
GV_FN double gv_artanh_series(double z) {
    double p = 2.0 / 27.0;
    p = p * z + 2.0 / 25.0;
    p = p * z + 2.0 / 23.0;
    p = p * z + 2.0 / 21.0;
    p = p * z + 2.0 / 19.0;
    p = p * z + 2.0 / 17.0;
    p = p * z + 2.0 / 15.0;
    p = p * z + 2.0 / 13.0;
    p = p * z + 2.0 / 11.0;
    p = p * z + 2.0 / 9.0;
    return p * z + 2.0 / 7.0;
}

// double: `logarithm` if x is positive and finite, otherwise what a logarithm of x is.
GV_FN double gv_log_or_limit_in_double(double x, double logarithm) {
    const double infinity = gv_infinity_in_double();
    const double limit = x == infinity ? x : x == 0.0 ? -infinity : gv_nan_in_double();
    return x > 0.0 && x < infinity ? logarithm : limit;
}

// double: ln x. With f = m - 1 and s = f / (2 + f), ln m is 2 artanh(s) = f - (f^2 / 2 - s (f^2 / 2 + z ...)), whose first term is
// exact (fdlibm, e_log.c).
GV_FN double gv_log_in_double(double x) {
    double k;
    const double f = gv_split_double(x, &k) - 1.0, s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    const double curve = z * (2.0 / 3.0 + z * (0.4 + z * gv_artanh_series(z)));
    const double small = half - (s * (half + curve) + k * 5.497923018708371e-14);
    return gv_log_or_limit_in_double(x, k * 0.6931471805598903 - (small - f));
}

// ---- powers ---------------------------------------------------------------------------------------------------

// A long number is the sum of two doubles, the second of which is smaller than an ulp of the first.

// double: a + b as a long number (D. Knuth).
GV_FN double gv_exact_sum(double a, double b, double* low) {
    const double sum = a + b, part = sum - a;
    *low = (a - (sum - part)) + (b - part);
    return sum;
}

// double: a b as a long number, for sizes up to 2^996 (T. Dekker). Parts of 26 bits have exact products.
GV_FN double gv_exact_product(double a, double b, double* low) {
    const double a_scaled = 134217729.0 * a, a_high = a_scaled - (a_scaled - a), a_low = a - a_high;  // 2^27 + 1
    const double b_scaled = 134217729.0 * b, b_high = b_scaled - (b_scaled - b), b_low = b - b_high;
    const double product = a * b;
    *low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    return product;
}

// double: the sum of two long numbers.
GV_FN double gv_long_sum(double a, double a_low, double b, double b_low, double* low) {
    double rest;
    const double sum = gv_exact_sum(a, b, &rest);
    rest += a_low + b_low;
    const double result = sum + rest;
    *low = (sum - result) + rest;
    return result;
}

// double: the product of two long numbers.
GV_FN double gv_long_product(double a, double a_low, double b, double b_low, double* low) {
    double rest;
    const double product = gv_exact_product(a, b, &rest);
    rest += a * b_low + a_low * b;
    const double result = product + rest;
    *low = (product - result) + rest;
    return result;
}

// double: ln x as a long number, for a positive finite x; the relative error is below 2^-68. The first terms of the series are
// long numbers.
GV_FN double gv_long_log(double x, double* low) {
    double k, d_low, p_low, z_low, q_low;
    const double m = gv_split_double(x, &k), f = m - 1.0, d = gv_exact_sum(1.0, m, &d_low);
    const double s = f / d, p = gv_exact_product(s, d, &p_low), s_low = (((f - p) - p_low) - s * d_low) / d;
    const double z = gv_long_product(s, s_low, s, s_low, &z_low);
    double q = gv_long_sum(0.4, -2.2204460492503132e-17, z * gv_artanh_series(z), 0.0, &q_low);
    q = gv_long_product(z, z_low, q, q_low, &q_low);
    q = gv_long_sum(0.6666666666666666, 3.700743415417188e-17, q, q_low, &q_low);
    q = gv_long_product(z, z_low, q, q_low, &q_low);
    q = gv_long_product(s, s_low, q, q_low, &q_low);
    q = gv_long_sum(2.0 * s, 2.0 * s_low, q, q_low, &q_low);
    return gv_long_sum(k * 0.6931471805598903, k * 5.497923018708371e-14, q, q_low, low);
}

// double: distance of |x| to the nearest integer, up to 1/2; 0 for infinity. Doubles from 2^52 on are integers.
GV_FN double gv_to_integer_in_double(double x) {
    const double whole = gv_size_of_double(x), size = whole < 4503599627370496.0 ? whole : 4503599627370496.0;
    return gv_size_of_double((size + 4503599627370496.0) - 4503599627370496.0 - size);
}

// double: x^y, where `power` is |x|^y. Like C's pow(): 1 for y = 0 and for x = 1, even if the other argument is NaN. A negative x
// has a power if y is an integer; infinity is an even integer.
GV_FN double gv_power_or_limit_in_double(double x, double y, double power) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y) return gv_nan_in_double();
    if (gv_to_integer_in_double(y) != 0.0) return x < 0.0 && x != -gv_infinity_in_double() ? gv_nan_in_double() : power;
    const gv_u64 sign = gv_to_integer_in_double(0.5 * y) == 0.0 ? 0 : gv_double_bits(x) & 0x8000000000000000ull;
    return gv_double_from_bits(gv_double_bits(power) ^ sign);
}

// double: x^y = e^(y ln |x|), with the logarithm as a long number. A y beyond 2^70 gives 0 or infinity, as 2^70 does. |x| = 0 and
// infinity have an infinite logarithm.
GV_FN double gv_pow_in_double(double x, double y) {
    const double size = gv_size_of_double(x), most = 1180591620717411303424.0;
    const double exponent = y > most ? most : y < -most ? -most : y;
    double log_low, low;
    const bool inside = size > 0.0 && size < gv_infinity_in_double();
    const double logarithm = gv_long_log(inside ? size : 2.0, &log_low);
    const double product = gv_long_product(logarithm, log_low, exponent, 0.0, &low);
    const bool grows = (size > 1.0) == (y > 0.0);
    const double power = inside ? gv_exp_of_sum(size == 1.0 ? 0.0 : product, size == 1.0 ? 0.0 : low)
                                : grows ? gv_infinity_in_double() : 0.0;
    return gv_power_or_limit_in_double(x, y, power);
}
