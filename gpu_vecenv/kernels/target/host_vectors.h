// Vectors as wide as the processor's registers, for kernels of the host alone. Each element has the bits of the same operations on
// floats, so results do not depend on the width. Products of matrices use a fused multiply-add where the processor has one.
#pragma once
#include "target/target.h"
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
#define GV_VECTOR_REGISTERS 32
#else
#define GV_VECTOR_REGISTERS 16
#endif
#if defined(__AVX512F__)
#define GV_WIDTH 16
#elif defined(__AVX__)
#define GV_WIDTH 8
#else
#define GV_WIDTH 4
#endif
typedef float GvVector __attribute__((vector_size(4 * GV_WIDTH)));
typedef gv_i32 GvInts __attribute__((vector_size(4 * GV_WIDTH)));

GV_INLINE GvVector gv_load_vector(const float* at) {
    GvVector x;
    __builtin_memcpy(&x, at, sizeof(x));
    return x;
}
GV_INLINE void gv_store_vector(float* at, const GvVector& x) { __builtin_memcpy(at, &x, sizeof(x)); }
GV_INLINE GvInts gv_load_ints(const gv_i32* at) {
    GvInts x;
    __builtin_memcpy(&x, at, sizeof(x));
    return x;
}

// The first halves of two vectors, element by element in turn, and the second halves.
#if GV_WIDTH == 16
#define GV_FIRST_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define GV_SECOND_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif GV_WIDTH == 8
#define GV_FIRST_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define GV_SECOND_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define GV_FIRST_HALVES 0, 4, 1, 5
#define GV_SECOND_HALVES 2, 6, 3, 7
#endif
GV_INLINE void gv_interleave(const GvVector& x, const GvVector& y, GvVector& first, GvVector& second) {
#if defined(__clang__)
    first = __builtin_shufflevector(x, y, GV_FIRST_HALVES);
    second = __builtin_shufflevector(x, y, GV_SECOND_HALVES);
#else
    first = __builtin_shuffle(x, y, GvInts{GV_FIRST_HALVES});
    second = __builtin_shuffle(x, y, GvInts{GV_SECOND_HALVES});
#endif
}

#define GV_LAMBDA __attribute__((always_inline))  // vectors are passed in registers
GV_INLINE GvVector gv_all(float x) { return x - GvVector{}; }

// a b + c, rounded once if the processor can.
GV_INLINE GvVector gv_fused_or_two(const GvVector& a, const GvVector& b, const GvVector& c) {
#if defined(__AVX512F__)
    return (GvVector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (GvVector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (GvVector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

// Minimum and maximum of each element, with the cases of NaN of gv_min and gv_max in lib/math.h.
// GCC makes no instruction of its own for a minimum out of a selection.
GV_INLINE GvVector gv_min(const GvVector& x, const GvVector& y) {
#if defined(__AVX512F__)
    return (GvVector)_mm512_min_ps((__m512)y, (__m512)x);
#elif defined(__AVX__)
    return (GvVector)_mm256_min_ps((__m256)y, (__m256)x);
#else
    return y < x ? y : x;
#endif
}
GV_INLINE GvVector gv_max(const GvVector& x, const GvVector& y) {
#if defined(__AVX512F__)
    return (GvVector)_mm512_max_ps((__m512)y, (__m512)x);
#elif defined(__AVX__)
    return (GvVector)_mm256_max_ps((__m256)y, (__m256)x);
#else
    return x < y ? y : x;
#endif
}
