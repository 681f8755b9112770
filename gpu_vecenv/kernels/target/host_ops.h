// The functions of cuda_ops.h for the host; their comments are there.
#pragma once
#include "target/types.h"
#ifndef GV_FN
#define GV_FN static inline
#endif

#define GV_VECTOR_STORES 0
#define GV_WORD_LOADS 0
#define GV_BRANCH_PAYS 0  // a branch keeps the compiler from stepping a pack of worlds in vector registers
#define GV_SHARED_DIVISION 0

GV_FN float gv_abs(float x) { return __builtin_fabsf(x); }
GV_FN float gv_sqrt(float x) { return __builtin_sqrtf(x); }
// double: for statistics.
GV_FN double gv_sqrt(double x) { return __builtin_sqrt(x); }
GV_FN gv_i32 gv_bits(float x) {
    gv_i32 bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
}
GV_FN float gv_from_bits(gv_u32 bits) {
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

// double: the bits of a double.
GV_FN gv_u64 gv_double_bits(double x) {
    gv_u64 bits;
    __builtin_memcpy(&bits, &x, 8);
    return bits;
}
// double: as above.
GV_FN double gv_double_from_bits(gv_u64 bits) {
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
}

// (float)x. GCC makes (float)(gv_i32)y one instruction that rounds y towards 0, which gives -0 where y is above -1 and not positive.
GV_FN float gv_float_of(gv_i32 x) { return x == 0 ? 0.0f : (float)x; }

GV_FN float gv_fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
GV_FN float gv_reciprocal_guess(float y) { return 1.0f / y; }
GV_FN float gv_min_magnitude(float x, float y) { return gv_abs(y) < x ? gv_abs(y) : x; }
GV_FN float gv_max_magnitude(float x, float y) { return x < gv_abs(y) ? gv_abs(y) : x; }

GV_FN void gv_multiply_wide(gv_u32 x, gv_u32 y, gv_u32* high, gv_u32* low) {
    const gv_u64 product = (gv_u64)x * y;
    *high = (gv_u32)(product >> 32);
    *low = (gv_u32)product;
}

template <class PairOf>
GV_FN gv_u32 gv_signs(gv_i32 count, PairOf pair) {
    gv_u32 bits = 0;
    float x, y;
    for (gv_i32 i = 0; i < count; i += 2) {
        pair(i, x, y);
        bits |= (x < 0.0f ? 1u << i : 0u) | (y < 0.0f ? 2u << i : 0u);
    }
    return bits;
}

GV_FN gv_i32 gv_count_ones(gv_u32 bits) { return __builtin_popcount(bits); }
GV_FN gv_i32 gv_lowest_bit(gv_u32 bits) { return __builtin_ctz(bits); }
GV_FN gv_i32 gv_lowest_bit(gv_u64 bits) { return __builtin_ctzll(bits); }

template <class T>
GV_FN void gv_store_once(T* to, T value) { *to = value; }
GV_FN void gv_store_once(float* to, float a, float b) {
    to[0] = a;
    to[1] = b;
}
GV_FN void gv_store_once(float* to, float a, float b, float c, float d) {
    gv_store_once(to, a, b);
    gv_store_once(to + 2, c, d);
}
GV_FN void gv_prefetch(const void*) {}

// Functions of cuda.h and cuda_entry.h for lanes of a warp, where no lanes step together.
GV_FN void gv_load_fence() {}
GV_FN void gv_recompute(float&) {}
GV_FN bool gv_any_in_group(gv_i32, bool condition) { return condition; }
template <gv_i32, class Read>
GV_FN gv_u32 gv_bits_of_group(const GvLanes&, gv_i32, Read read) {
    gv_u32 bits = 0;
    for (gv_i32 k = 0; k < 32; ++k) bits |= (gv_u32)read(k) << k;
    return bits;
}
GV_FN bool gv_copy_out_together(const GvLanes&, const float*, float*, gv_i32) { return false; }
