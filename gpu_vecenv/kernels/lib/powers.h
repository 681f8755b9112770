// Exponentials, logarithms and powers. They give the same bits on every target, because they use only + - * /, comparisons and
// the bits of floats. An env's kernel includes this header itself. gv_pow computes in double, the other functions in float;
// docs/design/one-source.md gives the reasons and the cost. lib/powers_in_double.h has functions that take and return doubles.
//
// function        result              largest error    special arguments
// gv_exp(x)       e^x                 1 ulp            0 at -infinity
// gv_log(x)       ln x                1 ulp            -infinity at 0, NaN below
// gv_log2(x)      log2 x              1.5 ulps         -infinity at 0, NaN below; exact for powers of 2
// gv_pow(x, y)    x^y                 0.501 ulps       as pow() of C
// gv_softplus(x)  ln(1 + e^x)         2 ulps           0 at -infinity, infinity at infinity
// gv_tanh(x)      hyperbolic tangent  1.5 ulps         -1 and 1 at the infinities, -0 at -0
//
// An ulp is the distance between neighbouring floats at the size of the exact result, at least 2^-149. Every float is a valid
// argument. A result that does not exist, or a result of NaN, is the NaN with the bits 0x7fc00000. A result that is too large is
// infinite. Subnormal arguments and results keep the bounds.
#pragma once
#include "lib/math.h"
#include "lib/powers_in_double.h"

#define GV_INFINITY gv_from_bits(0x7f800000u)
#define GV_NAN gv_from_bits(0x7fc00000u)

// 2^n for -126 <= n <= 127.
GV_FN float gv_two_to(gv_i32 n) { return gv_from_bits((gv_u32)(n + 127) << 23); }

// ---- exponential ----------------------------------------------------------------------------------------------

// e^r for |r| <= ln 2 / 2, by the polynomial of S. Moshier's Cephes library (expf.c).
GV_FN float gv_exp_power(float r) {
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * (r * r) + r) + 1.0f;
}

// 2^n e^r for |r| <= ln 2 / 2. 2^n may exceed the range of floats.
GV_FN float gv_exp_reduced(gv_i32 n, float r) {
    const gv_i32 half = n >> 1;
    return gv_exp_power(r) * gv_two_to(half) * gv_two_to(n - half);
}

// e^x. x is n ln 2 + r. ln 2 has two parts, and the product of n and the first part is exact.
GV_FN float gv_exp(float x) {
    const float within = gv_min(89.0f, gv_max(-104.0f, x));  // beyond, e^x is infinite or 0; NaN becomes -104
    const float turns = within * 1.44269504088896341f;       // log2(e)
    const float n = (turns + 12582912.0f) - 12582912.0f;     // nearest integer: floats next to 1.5 * 2^23 are integers
    const float r = (within - n * 0.693359375f) + n * 2.12194440e-4f;
    return x == x ? gv_exp_reduced((gv_i32)n, r) : GV_NAN;
}

// e^x for -87 <= x <= 88, whose 2^n needs one factor, or NaN for NaN. The last bits of `shifted` are n, so that no conversion of a
// NaN to an integer is needed.
GV_FN float gv_exp_normal(float x) {
    const float shifted = x * 1.44269504088896341f + 12582912.0f, n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    return gv_exp_power(r) * gv_from_bits(((gv_u32)gv_bits(shifted) << 23) + 0x3f800000u);
}

// ---- logarithms -----------------------------------------------------------------------------------------------

// x = mantissa 2^exponent, with the mantissa between sqrt(1/2) and sqrt(2), for a positive finite x. Other x give any numbers.
struct GvParts {
    float mantissa;
    gv_i32 exponent;
};
GV_FN GvParts gv_parts(float x) {
    const bool subnormal = x < 1.17549435e-38f;
    const gv_u32 bits = (gv_u32)gv_bits(subnormal ? x * 8388608.0f : x) - 0x3f3504f3u;  // of sqrt(1/2)
    return {gv_from_bits((bits & 0x7fffffu) + 0x3f3504f3u), ((gv_i32)bits >> 23) - (subnormal ? 23 : 0)};
}

// ln(1 + f) - f for 1 + f between sqrt(1/2) and sqrt(2): the polynomial of Cephes (logf.c).
GV_FN float gv_log_curve(float f) {
    const float square = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    return p * f * square - 0.5f * square;
}

// `logarithm` if x is positive and finite, otherwise what a logarithm of x is.
GV_FN float gv_log_or_limit(float x, float logarithm) {
    const float limit = x == GV_INFINITY ? x : x == 0.0f ? -GV_INFINITY : GV_NAN;
    return x > 0.0f && x < GV_INFINITY ? logarithm : limit;
}

// ln x for a positive finite x.
GV_FN float gv_log_inside(float x) {
    const GvParts parts = gv_parts(x);
    const float f = parts.mantissa - 1.0f, k = (float)parts.exponent;
    return (f + (gv_log_curve(f) - k * 2.12194440e-4f)) + k * 0.693359375f;
}

// Logarithm to base e.
GV_FN float gv_log(float x) { return gv_log_or_limit(x, gv_log_inside(x)); }

// Logarithm to base 2. log2(e) is 1 + 0.4427.
GV_FN float gv_log2(float x) {
    const GvParts parts = gv_parts(x);
    const float f = parts.mantissa - 1.0f, curve = gv_log_curve(f);
    const float fraction = ((curve * 0.44269504088896341f + f * 0.44269504088896341f) + curve) + f;
    return gv_log_or_limit(x, fraction + (float)parts.exponent);
}

// ---- functions of e^x -----------------------------------------------------------------------------------------

// ln(1 + e^x). The rounding of 1 + e is added back.
GV_FN float gv_softplus(float x) {
    const float e = gv_exp(-gv_abs(x)), sum = 1.0f + e;
    const float result = gv_max(x, 0.0f) + (gv_log_inside(sum) + (e - (sum - 1.0f)) / sum);
    return x == x ? result : GV_NAN;
}

// Hyperbolic tangent. The polynomial is that of Cephes (tanhf.c).
GV_FN float gv_tanh(float x) {
    const float magnitude = gv_abs(x), square = x * x;
    float p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    const float near = p * square * magnitude + magnitude;
    const float far = 1.0f - 2.0f / (gv_exp(2.0f * magnitude) + 1.0f);
    return x == x ? gv_flipped(magnitude < 0.625f ? near : far, (gv_u32)gv_bits(x) & 0x80000000u) : GV_NAN;
}

// ---- powers ---------------------------------------------------------------------------------------------------

// double: y ln x of a large power needs eight bits more than a float has.
// 2 artanh(z) for |z| < 0.1716, by its series; the relative error is below 1e-13.
GV_FN double gv_two_artanh(double z) {
    const double square = z * z;
    double p = 1.0 / 15.0;
    p = p * square + 1.0 / 13.0;
    p = p * square + 1.0 / 11.0;
    p = p * square + 1.0 / 9.0;
    p = p * square + 1.0 / 7.0;
    p = p * square + 1.0 / 5.0;
    p = p * square + 1.0 / 3.0;
    return 2.0 * (p * square * z + z);
}

// double: as above.
// ln x for x >= 0. The logarithm of the mantissa m is 2 artanh((m - 1) / (m + 1)).
GV_FN double gv_log_for_power(float x) {
    const GvParts parts = gv_parts(x);
    const double m = (double)parts.mantissa;
    const double logarithm = (double)parts.exponent * 0.6931471805599453 + gv_two_artanh((m - 1.0) / (m + 1.0));
    return x > 0.0f && x < GV_INFINITY ? logarithm : (double)gv_log_or_limit(x, 0.0f);
}

// double: as above.
// e^x within the range of floats, 0 < e^x < infinity as a double, by the series of e^r for |r| <= ln 2 / 2. The relative error is
// below 1e-12. NaN gives any number.
GV_FN double gv_exp_for_power(double x) {
    const double within = x > -104.0 ? (x < 89.0 ? x : 89.0) : -104.0;
    const double turns = within * 1.4426950408889634;
    const double n = (turns + 6755399441055744.0) - 6755399441055744.0;  // nearest integer, by 1.5 * 2^52
    const double r = within - n * 0.6931471805599453;
    double p = 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const gv_i32 half = (gv_i32)n >> 1;
    return p * (double)gv_two_to(half) * (double)gv_two_to((gv_i32)n - half);
}

// Distance of |x| to the nearest integer, up to 1/2; 0 for infinity. Floats from 2^23 on are integers, and a sum that reaches
// 2^23 has no digits below 1.
GV_FN float gv_to_integer(float x) {
    const float size = gv_min(gv_abs(x), 8388608.0f);
    return gv_abs((size + 8388608.0f) - 8388608.0f - size);
}

// x^y, where `power` is |x|^y. Like C's pow(): 1 for y = 0 and for x = 1, even if the other argument is NaN. A negative x has a
// power if y is an integer; infinity is an even integer. Selections one after the other let loops on the CPU use vectors.
GV_FN float gv_power_or_limit(float x, float y, float power) {
    const float broken = gv_to_integer(y), odd = gv_to_integer(0.5f * y);
    const float inside = x < 0.0f ? GV_NAN : power;
    float result = broken == 0.0f ? (odd == 0.0f ? power : gv_flipped(power, (gv_u32)gv_bits(x) & 0x80000000u)) : inside;
    result = x == -GV_INFINITY ? (broken != 0.0f ? power : result) : result;
    result = x == x ? result : GV_NAN;
    result = y == y ? result : GV_NAN;
    result = x == 1.0f ? 1.0f : result;
    return y == 0.0f ? 1.0f : result;
}

// double: as above.
// x^y. |x| = 1 is apart, because y may be infinite.
GV_FN float gv_pow(float x, float y) {
    const float size = gv_abs(x);
    const double exponent = size == 1.0f ? 0.0 : (double)y * gv_log_for_power(size);
    return gv_power_or_limit(x, y, (float)gv_exp_for_power(exponent));
}
