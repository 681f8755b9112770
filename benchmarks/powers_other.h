// The other variant of each function of lib/powers.h, for benchmarks/powers.py: doubles where the library has floats, and floats
// where it has doubles. Special values are those of the library.
#pragma once
#include "lib/powers.h"

// double: for comparison with floats.
GV_FN float other_exp(float x) { return x == x ? (float)gv_exp_for_power((double)x) : GV_NAN; }

// double: as above.
GV_FN float other_log(float x) { return gv_log_or_limit(x, (float)gv_log_for_power(x)); }

// double: as above.
GV_FN float other_log2(float x) { return gv_log_or_limit(x, (float)(gv_log_for_power(x) * 1.4426950408889634)); }

// double: as above.
// ln(1 + e) is ln 2 + ln((1 + e) / 2) for a large e.
GV_FN float other_softplus(float x) {
    const double e = gv_exp_for_power((double)-gv_abs(x));
    const bool large = e > 0.4142135623730951;
    const double rest = (large ? 0.6931471805599453 : 0.0) + gv_two_artanh((large ? e - 1.0 : e) / (large ? e + 3.0 : e + 2.0));
    return x == x ? (float)((double)gv_max(x, 0.0f) + rest) : GV_NAN;
}

// double: as above.
// (e - 1) / (e + 1) loses digits for small x; the first terms of the series suffice there.
GV_FN float other_tanh(float x) {
    const double magnitude = (double)gv_abs(x), e = gv_exp_for_power(2.0 * magnitude);
    const double near = magnitude - magnitude * magnitude * magnitude * (1.0 / 3.0);
    const float result = (float)(magnitude < 0.0009765625 ? near : (e - 1.0) / (e + 1.0));
    return x == x ? gv_flipped(result, (gv_u32)gv_bits(x) & 0x80000000u) : GV_NAN;
}

// ---- x^y in floats --------------------------------------------------------------------------------------------

// The rounding error of product = x y, by halves of the mantissas, whose products are exact (T. J. Dekker, "A floating-point
// technique for extending the available precision", 1971).
GV_FN float upper_half(float x) { return gv_from_bits((gv_u32)gv_bits(x) & 0xfffff000u); }
GV_FN float product_error(float x, float y, float product) {
    const float a = upper_half(x), b = x - a, c = upper_half(y), d = y - c;
    return ((a * c - product) + a * d + b * c) + b * d;
}

// ln |x| is a sum of two floats, high + low. ln of the mantissa is 2 artanh(z + z_low), with z + z_low = f / (m + 1); its
// derivative in z is 2 (1 + z^2 + ...). The exponent is y ln |x| = product + more.
GV_FN float other_pow(float x, float y) {
    const float size = gv_abs(x);
    const GvParts parts = gv_parts(size);
    const float m = parts.mantissa, k = (float)parts.exponent, f = m - 1.0f, sum = m + 1.0f;
    const float z = f / sum, zs = z * sum, square = z * z;
    const float z_low = ((f - zs) - product_error(z, sum, zs) - z * (m - (sum - 1.0f))) / sum;
    float p = 0.0909090909f;
    p = p * square + 0.111111111f;
    p = p * square + 0.142857143f;
    p = p * square + 0.2f;
    p = p * square + 0.333333333f;
    const float tail = 2.0f * (p * square * z + (z_low + z_low * square)) - k * 2.12194440e-4f;
    const float first = k * 0.693359375f, head = first + 2.0f * z, rest = (2.0f * z - (head - first)) + tail;
    const float high = head + rest, low = rest - (high - head);

    const float times = gv_clamp(y, -4.0e9f, 4.0e9f);  // larger exponents give the same limits
    const float product = times * high;
    const float limit = (size < 1.0f) == (y < 0.0f) ? 1000.0f : -1000.0f;
    const float exponent = size == 0.0f || size == GV_INFINITY ? limit : product;
    const float within = gv_min(89.0f, gv_max(-104.0f, exponent)), turns = within * 1.44269504088896341f;
    const float n = (turns + 12582912.0f) - 12582912.0f;
    const float more = within == product ? product_error(times, high, product) + times * low : 0.0f;
    const float r = (within - n * 0.693359375f) + (n * 2.12194440e-4f + more);
    return gv_power_or_limit(x, y, gv_exp_reduced((gv_i32)n, r));
}
