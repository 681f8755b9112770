// 16-bit numbers on the host, by the bits of floats.
#pragma once
#include "target/target.h"

#define GV_UNROLL_BY_4

// The number of 16 bits next to x, ties to even; infinite from 65520 on.
GV_FN float gv_rounded_to_half(float x) {
    const gv_u32 bits = (gv_u32)gv_bits(x), sign = bits & 0x80000000u;
    const float size = gv_from_bits(bits ^ sign);
    float rounded = gv_from_bits(((bits ^ sign) + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
    if (size < 6.103515625e-5f) rounded = (size + 0.75f) - 0.75f;  // multiples of 2^-24, as floats next to 0.75
    if (size >= 65520.0f) rounded = gv_from_bits(0x7f800000u);
    if (size != size) rounded = size;
    return gv_from_bits((gv_u32)gv_bits(rounded) | sign);
}

// Bits of a number that gv_rounded_to_half() returned, and the number of such bits.
GV_FN gv_u16 gv_half_bits(float x) {
    const gv_u32 bits = (gv_u32)gv_bits(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (gv_u16)(sign | 0x7e00u);
    if (size == 0x7f800000u) return (gv_u16)(sign | 0x7c00u);
    if (size >= 0x38800000u) return (gv_u16)(sign | (size - 0x38000000u) >> 13);
    return (gv_u16)(sign | (gv_u32)(gv_from_bits(size) * 16777216.0f));
}
GV_FN float gv_of_half_bits(gv_u16 half) {
    const gv_u32 sign = (gv_u32)(half & 0x8000u) << 16, size = half & 0x7fffu;
    const float subnormal = (float)size * 5.9604644775390625e-8f;
    const gv_u32 normal = size >= 0x7c00u ? 0x7f800000u | (size & 0x3ffu) << 13 : (size << 13) + 0x38000000u;
    return gv_from_bits(sign | (size < 0x400u ? (gv_u32)gv_bits(subnormal) : normal));
}

// The number of 16 bits next to x, or NaN where that is infinite: inf - inf is NaN.
GV_FN float gv_half_or_nan_value(float x) {
    const float rounded = gv_rounded_to_half(x);
    return rounded + (rounded - rounded);
}

// Functions of cuda_warp.h.
GV_FN float gv_larger(float x, float y) { return x < y ? y : x; }
GV_FN float gv_limited(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }
GV_FN float gv_fma(float a, float b, float c) { return a * b + c; }
GV_FN float gv_exp2_guess(float x) { return __builtin_exp2f(x); }
GV_FN float gv_log2_guess(float x) { return __builtin_log2f(x); }

// Copies that CUDA makes in the background, see cuda_warp.h.
template <gv_i32 FLOATS>
GV_FN void gv_start_copy(float* to, const float* from, bool valid) {
    for (gv_i32 i = 0; i < FLOATS; ++i) to[i] = valid ? from[i] : 0.0f;
}
GV_FN void gv_end_copies() {}
template <gv_i32 GROUPS>
GV_FN void gv_wait_copies() {}
