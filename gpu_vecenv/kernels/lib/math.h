// Arithmetic that gives the same bits on every target: IEEE + - * / and sqrt only, no library calls.
// gv_abs, gv_sqrt (correctly rounded, x >= 0) and the bits of a float are in target/.
#pragma once
#include "target/target.h"

GV_FN float gv_min(float x, float y) { return y < x ? y : x; }
GV_FN float gv_max(float x, float y) { return x < y ? y : x; }
GV_FN float gv_clamp(float x, float lo, float hi) { return gv_min(gv_max(x, lo), hi); }

// Largest integer up to x; NaN of NaN. From 2^23 on a float is an integer, and below, adding 2^23 rounds to one. Conversions to an
// integer and branches would keep GCC from stepping a pack of worlds in vector registers, here and in gv_mod.
GV_FN float gv_floor(float x) {
    const float size = gv_abs(x), rounded = (size + 8388608.0f) - 8388608.0f, whole = x < 0.0f ? -rounded : rounded;
    const float floor = whole > x ? whole - 1.0f : whole;
    return size < 8388608.0f ? floor : x;
}

// Floor modulo for y > 0. For |x| < 2 y it equals NumPy's float32 remainder and lies in [0, y]; it is y for a tiny negative x,
// because x + y rounds to y. For larger |x| it is off by up to a rounding of x, and may exceed y by as much.
GV_FN float gv_mod(float x, float y) {
    const bool inside = (x >= 0.0f) & (x < y), below = (x < 0.0f) & (x >= -y), above = (x >= y) & (x < y + y);
    if (GV_BRANCH_PAYS && (inside | below | above)) return inside ? x : below ? x + y : x - y;  // without the division
    const float rest = x - gv_floor(x / y) * y;
    float result = rest < 0.0f ? rest + y : rest;  // x / y was rounded up to the next integer
    result = above ? x - y : result;
    result = below ? x + y : result;
    return inside ? x : result;
}

// ---- divisions ------------------------------------------------------------------------------------------------

// x / y by the instructions that a division compiles to on every CUDA architecture. The guess at 1 / y is off by one ulp at
// most, and exact for the largest mantissa. Unless something overflows or underflows, the result has the bits of x / y
// (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990; tests/kernels).
GV_FN float gv_inverse(float y, float guess) { return gv_fused(guess, gv_fused(-y, guess, 1.0f), guess); }
GV_FN float gv_quotient(float x, float y, float inverse) {
    const float quotient = x * inverse;
    return gv_fused(gv_fused(-y, quotient, x), inverse, quotient);
}

// Smallest and largest absolute value of the operands of divisions. NaN is left out, because x / y and gv_quotient both return NaN.
struct GvMagnitudes {
    float smallest, largest;
};
GV_FN void gv_add_operand(GvMagnitudes& operands, float x) {
    operands.smallest = gv_min_magnitude(operands.smallest, x);
    operands.largest = gv_max_magnitude(operands.largest, x);
}

struct GvDivisor {
    float value, inverse;
    GvMagnitudes& operands;
};
GV_FN GvDivisor gv_divisor(float y, GvMagnitudes& operands) {
    const float guess = gv_reciprocal_guess(y);
    gv_add_operand(operands, y);
    return {y, gv_inverse(y, guess), operands};
}
GV_FN float operator/(float x, const GvDivisor& y) {
    gv_add_operand(y.operands, x);
    return gv_quotient(x, y.value, y.inverse);
}

// Returns body(by), in which x / by(y) has the bits of x / y. On CUDA an ordinary division branches on a test of its operands. Here
// one test covers all divisions of the body, and a divisor that is used twice is inverted once. The body is a lambda. It captures
// by reference, because a copy of GvArgs would keep the host from vectorising. It may run twice, so it must not have side effects.
template <class Body>
GV_FN auto gv_dividing(Body body) {
    if constexpr (GV_SHARED_DIVISION) {
        GvMagnitudes operands = {1.0f, 1.0f};
        const auto result = body([&](float y) { return gv_divisor(y, operands); });
        if (operands.smallest >= 1.0e-18f && operands.largest <= 1.0e18f) return result;
    }
    return body([](float y) { return y; });
}

// ---- sine and cosine ------------------------------------------------------------------------------------------

// -x if `sign` is 0x80000000, the sign bit; x if it is 0.
GV_FN float gv_flipped(float x, gv_u32 sign) { return gv_from_bits((gv_u32)gv_bits(x) ^ sign); }

// Sine and cosine of |z| <= pi / 4: the single-precision minimax polynomials of S. Moshier's Cephes library (sinf.c).
GV_FN void gv_sincos_polynomials(float z, float* sine, float* cosine) {
    const float zz = z * z;
    *sine = ((-1.9515295891e-4f * zz + 8.3321608736e-3f) * zz - 1.6666654611e-1f) * zz * z + z;
    *cosine = ((2.443315711809948e-5f * zz - 1.388731625493765e-3f) * zz + 4.166664568298827e-2f) * zz * zz - 0.5f * zz + 1.0f;
}

#define GV_EIGHTHS_OF_A_TURN 1.27323954473516f  // 4 / pi

// Sine and cosine of x radians, after a Cody-Waite reduction by pi/4 in three parts. Absolute error below 8e-8 for
// |x| <= 8192 (tests/kernels tries every float). It grows with |x|, because the reduction is inexact; from 1e9 on there is no
// reduction, and the result is not a sine.
GV_FN void gv_sincos(float x, float* sine, float* cosine) {
    const gv_u32 negative = x < 0.0f ? 0x80000000u : 0u;
    const float magnitude = gv_flipped(x, negative);
    gv_i32 octant = (gv_i32)((magnitude < 1.0e9f ? magnitude : 0.0f) * GV_EIGHTHS_OF_A_TURN);
    octant += octant & 1;
    const float turns = (float)octant;
    const float z = ((magnitude - turns * 0.78515625f) - turns * 2.4187564849853515625e-4f) - turns * 3.77489497744594108e-8f;
    float s, c;
    gv_sincos_polynomials(z, &s, &c);
    const gv_i32 quadrant = (octant >> 1) & 3;
    *sine = gv_flipped(quadrant & 1 ? c : s, (gv_u32)(quadrant & 2) << 30 ^ negative);
    *cosine = gv_flipped(quadrant & 1 ? s : c, (gv_u32)((quadrant + 1) & 2) << 30);
}

// The same bits as gv_sincos, faster on CUDA if |x| rarely exceeds pi / 4: smaller angles need no reduction and no choice of signs.
GV_FN void gv_sincos_small(float x, float* sine, float* cosine) {
    if (GV_BRANCH_PAYS && gv_abs(x) * GV_EIGHTHS_OF_A_TURN < 1.0f) {
        gv_sincos_polynomials(x, sine, cosine);
        return;
    }
    gv_sincos(x, sine, cosine);
}
