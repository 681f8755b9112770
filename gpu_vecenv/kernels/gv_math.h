// Arithmetic that gives the same bits on every target: IEEE + - * / and sqrt only, no library calls.
#pragma once
#include "gv_device.h"

GV_FN float gv_min(float x, float y) { return y < x ? y : x; }
GV_FN float gv_max(float x, float y) { return x < y ? y : x; }
GV_FN float gv_clamp(float x, float lo, float hi) { return gv_min(gv_max(x, lo), hi); }

// The sign bit cleared, which costs no instruction of its own.
GV_FN float gv_abs(float x) {
#if defined(__CUDA_ARCH__)
    return fabsf(x);
#else
    return __builtin_fabsf(x);
#endif
}

// Correctly rounded square root, x >= 0.
GV_FN float gv_sqrt(float x) {
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(x);
#else
    return __builtin_sqrtf(x);
#endif
}

// The signs of 2 to 32 values, an even number, a bit each: pair(i, x, y) gives the values i and i + 1.
template <class PairOf>
GV_FN gv_u32 gv_signs(gv_i32 count, PairOf pair) {
    gv_u32 bits = 0;
    float x, y;
#if defined(__CUDA_ARCH__)  // a shift each is cheaper than to compare and choose
    GV_UNROLL for (gv_i32 i = count - 2; i >= 0; i -= 2) {
        pair(i, x, y);
        bits = __funnelshift_l(__float_as_uint(y), bits, 1);
        bits = __funnelshift_l(__float_as_uint(x), bits, 1);
    }
#else  // what a compiler can do side by side
    for (gv_i32 i = 0; i < count; i += 2) {
        pair(i, x, y);
        bits |= (x < 0.0f ? 1u << i : 0u) | (y < 0.0f ? 2u << i : 0u);
    }
#endif
    return bits;
}

// Number of the lowest bit that is set; one must be.
GV_FN gv_i32 gv_lowest_bit(gv_u32 bits) {
#if defined(__CUDA_ARCH__)
    return __ffs((gv_i32)bits) - 1;
#else
    return __builtin_ctz(bits);
#endif
}

// Nearest integer below x. A float of 2^23 and more is an integer already (and would not fit an int32 soon after).
GV_FN float gv_floor(float x) {
    if (!(gv_abs(x) < 8388608.0f)) return x;
    const float whole = (float)(gv_i32)x;
    return whole > x ? whole - 1.0f : whole;
}

// Floor modulo, y > 0: the result lies in [0, y]. y itself appears when a tiny negative x is folded.
// Exact for |x| < 2 y, as NumPy's float32 remainder; beyond, off by a rounding of x, by which it may pass y.
GV_FN float gv_mod(float x, float y) {
    if (x >= 0.0f && x < y) return x;
    if (x < 0.0f && x >= -y) return x + y;      // what the division comes to
    if (x >= y && x < y + y) return x - y;
    float rest = x - gv_floor(x / y) * y;
    if (rest < 0.0f) rest += y;  // x / y was rounded up to the next integer
    return rest;
}

// a * b + c, rounded once. Allowed in quotients alone, by the mark that the test of compiled text knows.
GV_FN float gv_fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
    float sum;
    asm("fma.rn.f32 %0, %1, %2, %3;  // in a quotient" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
    return sum;
#else
    return __builtin_fmaf(a, b, c);
#endif
}

// x / y by the instructions that a division compiles to on every CUDA architecture, from the guess at 1 / y that these have: off
// by an ulp at most, and by nothing for the largest mantissa. As long as nothing overflows or underflows, these are the very bits
// of x / y (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990; tests/kernels).
GV_FN float gv_inverse(float y, float guess) { return gv_fused(guess, gv_fused(-y, guess, 1.0f), guess); }
GV_FN float gv_quotient(float x, float y, float inverse) {
    const float quotient = x * inverse;
    return gv_fused(gv_fused(-y, quotient, x), inverse, quotient);
}

#if defined(__CUDA_ARCH__)
// Between which sizes operands lie; a NaN is passed over, and comes out of either way of dividing.
struct GvSizes {
    float least, most;
};
GV_FN void gv_note(GvSizes& sizes, float x) {
    sizes.least = fminf(sizes.least, fabsf(x));
    sizes.most = fmaxf(sizes.most, fabsf(x));
}

struct GvDivisor {
    float value, inverse;
    GvSizes& sizes;
};
GV_FN GvDivisor gv_divisor(float y, GvSizes& sizes) {
    float guess;
    asm("rcp.approx.ftz.f32 %0, %1;  // in a quotient" : "=f"(guess) : "f"(y));
    gv_note(sizes, y);
    return {y, gv_inverse(y, guess), sizes};
}
GV_FN float operator/(float x, const GvDivisor& y) {
    gv_note(y.sizes, x);
    return gv_quotient(x, y.value, y.inverse);
}
#endif

// What body(by) returns, which writes x / by(y) for x / y and may run twice. On CUDA each division would test its operands and
// wait for the outcome; here one test serves them all, and a divisor that is used again is inverted once.
template <class Body>
GV_FN auto gv_dividing(Body body) {
#if defined(__CUDA_ARCH__)
    GvSizes sizes = {1.0f, 1.0f};
    const auto result = body([&](float y) { return gv_divisor(y, sizes); });
    if (sizes.least >= 1.0e-18f && sizes.most <= 1.0e18f) return result;
#endif
    return body([](float y) { return y; });
}

#if !defined(__CUDA_ARCH__)
GV_FN gv_i32 gv_bits(float x) {
    gv_i32 bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
}
#endif

// x with its sign changed where `sign` is the sign bit, 0x80000000, and not where it is 0.
GV_FN float gv_flipped(float x, gv_u32 sign) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(__float_as_uint(x) ^ sign);
#else
    gv_u32 bits;
    __builtin_memcpy(&bits, &x, 4);
    bits ^= sign;
    __builtin_memcpy(&x, &bits, 4);
    return x;
#endif
}

// Sine and cosine of |z| <= pi / 4: the single-precision minimax polynomials of S. Moshier's Cephes library (sinf.c).
GV_FN void gv_sincos_polynomials(float z, float* sine, float* cosine) {
    const float zz = z * z;
    *sine = ((-1.9515295891e-4f * zz + 8.3321608736e-3f) * zz - 1.6666654611e-1f) * zz * z + z;
    *cosine = ((2.443315711809948e-5f * zz - 1.388731625493765e-3f) * zz + 4.166664568298827e-2f) * zz * zz - 0.5f * zz + 1.0f;
}

#define GV_EIGHTHS_OF_A_TURN 1.27323954473516f  // 4 / pi

// Sine and cosine of x radians, after a Cody-Waite reduction by pi/4 in three parts. Absolute error below 8e-8 for
// |x| <= 8192 (tests/kernels tries every float); larger arguments lose accuracy in proportion, as the reduction does.
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

// The same bits for less, where x seldom passes pi / 4: nothing is reduced, and both functions know their signs.
GV_FN void gv_sincos_upright(float x, float* sine, float* cosine) {
#if defined(__CUDA_ARCH__)  // on the host a branch would keep worlds from being stepped side by side
    if (gv_abs(x) * GV_EIGHTHS_OF_A_TURN < 1.0f) {
        gv_sincos_polynomials(x, sine, cosine);
        return;
    }
#endif
    gv_sincos(x, sine, cosine);
}
