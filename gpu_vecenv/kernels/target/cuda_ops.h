// Intrinsics of CUDA. host_ops.h defines the same functions. Results are the same, except where a comment says otherwise.
#pragma once
#include "target/types.h"
#ifndef GV_FN
#define GV_FN static __device__ __forceinline__
#define GV_UNROLL _Pragma("unroll")
#endif

#define GV_VECTOR_STORES 1    // 8 and 16 bytes are stored at once
#define GV_WORD_LOADS 1       // indices are loaded as words: a branch for each type delays the loads after it
#define GV_BRANCH_PAYS 1      // a branch saves work if all lanes of most warps take it alike
#define GV_SHARED_DIVISION 1  // gv_dividing() tests the operands of several divisions once

GV_FN float gv_abs(float x) { return fabsf(x); }
GV_FN float gv_sqrt(float x) { return __fsqrt_rn(x); }
// double: for statistics.
GV_FN double gv_sqrt(double x) { return __dsqrt_rn(x); }
GV_FN gv_i32 gv_bits(float x) { return __float_as_int(x); }
GV_FN float gv_from_bits(gv_u32 bits) { return __uint_as_float(bits); }
// double: the bits of a double.
GV_FN gv_u64 gv_double_bits(double x) { return (gv_u64)__double_as_longlong(x); }
// double: as above.
GV_FN double gv_double_from_bits(gv_u64 bits) { return __longlong_as_double((gv_i64)bits); }

// The float of an integer that was made from a float: (float)x may be -0 on the host.
GV_FN float gv_float_of(gv_i32 x) { return (float)x; }

// a * b + c, rounded once. Only quotients may use it; the comment in the assembly marks it for the test of compiled text.
GV_FN float gv_fused(float a, float b, float c) {
    float sum;
    asm("fma.rn.f32 %0, %1, %2, %3;  // in a quotient" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
    return sum;
}

// Approximation of 1 / y, off by one ulp at most; exact on the host.
GV_FN float gv_reciprocal_guess(float y) {
    float guess;
    asm("rcp.approx.ftz.f32 %0, %1;  // in a quotient" : "=f"(guess) : "f"(y));
    return guess;
}

// Minimum and maximum of x, which is positive, and the absolute value of y.
GV_FN float gv_min_magnitude(float x, float y) { return fminf(x, fabsf(y)); }
GV_FN float gv_max_magnitude(float x, float y) { return fmaxf(x, fabsf(y)); }

// High and low word of a product. Without the assembly, NVRTC 13.0 compiles it to two instructions instead of one.
GV_FN void gv_multiply_wide(gv_u32 x, gv_u32 y, gv_u32* high, gv_u32* low) {
    asm("{ .reg .u64 product; mul.wide.u32 product, %2, %3; mov.b64 {%0, %1}, product; }"
        : "=r"(*low), "=r"(*high) : "r"(x), "r"(y));
}

// Signs of `count` values, an even number up to 32; none if it is not positive. Bit i is 1 if value i is negative. pair(i, x, y)
// sets x and y to the values i and i + 1, which must not be -0 or NaN: CUDA reads sign bits, the host compares with 0. A funnel
// shift collects one bit.
template <class PairOf>
GV_FN gv_u32 gv_signs(gv_i32 count, PairOf pair) {
    gv_u32 bits = 0;
    float x, y;
    GV_UNROLL for (gv_i32 i = count - 2; i >= 0; i -= 2) {
        pair(i, x, y);
        bits = __funnelshift_l(__float_as_uint(y), bits, 1);
        bits = __funnelshift_l(__float_as_uint(x), bits, 1);
    }
    return bits;
}

GV_FN gv_i32 gv_count_ones(gv_u32 bits) { return __popc(bits); }

// Index of the lowest bit that is 1; at least one bit must be 1.
GV_FN gv_i32 gv_lowest_bit(gv_u32 bits) { return __ffs((gv_i32)bits) - 1; }
GV_FN gv_i32 gv_lowest_bit(gv_u64 bits) { return __ffsll((gv_i64)bits) - 1; }

// Stores to global memory with the evict-first policy, which leaves the cache to the state of worlds.
template <class T>
GV_FN void gv_store_once(T* to, T value) { __stcs(to, value); }
GV_FN void gv_store_once(float* to, float a, float b) { __stcs((float2*)to, make_float2(a, b)); }
GV_FN void gv_store_once(float* to, float a, float b, float c, float d) { __stcs((float4*)to, make_float4(a, b, c, d)); }

// Starts a load into the L2 cache, which needs no register.
GV_FN void gv_prefetch(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }
