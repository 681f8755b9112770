// Instructions of a warp on matrices of 16-bit numbers, from sm_80 on. lanes_warp.h emulates them.
#pragma once
#include "target/tile_types.h"

#define GV_UNROLL_BY_4 _Pragma("unroll 4")  // of a loop whose length may be large

struct GvHalf {
    gv_u16 bits;
};

// A warp: its number in the team and this lane's number in it.
struct GvGroup {
    gv_i32 number, lane;
};
GV_FN GvGroup gv_group(const GvLanes& team) { return {team.lane >> 5, team.lane & 31}; }
GV_FN void gv_group_barrier(const GvGroup&) { __syncwarp(); }

// The value that another lane passes.
GV_FN gv_i32 gv_from_lane(const GvGroup&, gv_i32 value, gv_i32 lane) { return __shfl_sync(~0u, value, lane); }

// True if the condition holds in one of the lanes.
GV_FN bool gv_group_any(const GvGroup&, bool condition) { return __any_sync(~0u, condition); }

// Two numbers, rounded to 16 bits, in one word; the first in the low half.
GV_FN gv_u32 gv_pack(float first, float second) {
    gv_u32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

// The same, with numbers that are too large replaced by the largest ones. NaN stays.
GV_FN gv_u32 gv_pack_finite(float first, float second) {
    gv_u32 word;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

// The same for two places, with NaN for a number that is infinite in 16 bits: inf - inf is NaN.
GV_FN void gv_halves_or_nan(float x, float y, GvHalf& first, GvHalf& second) {
    gv_u32 word = gv_pack(x, y);
    asm("{ .reg .b32 none; sub.rn.f16x2 none, %0, %0; add.rn.f16x2 %0, %0, none; }" : "+r"(word));
    asm("mov.b32 {%0, %1}, %2;" : "=h"(first.bits), "=h"(second.bits) : "r"(word));
}
GV_FN void gv_unpack(gv_u32 word, float& first, float& second) {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(first), "=f"(second) : "r"(word));
}
GV_FN GvHalf gv_half(float value) {
    GvHalf half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
    return half;
}
GV_FN float gv_float(GvHalf half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
    return value;
}

// Address of shared memory in its own space.
GV_FN gv_u32 gv_shared(const void* at) { return (gv_u32)__cvta_generic_to_shared(at); }

// Starts a copy of FLOATS floats, 1 or 4, to shared memory, which takes no registers; zeros if not `valid`. gv_end_copies() closes a
// group of a lane's copies, and gv_wait_copies<N>() waits for all of its groups but the last N. Other lanes need a barrier then.
template <gv_i32 FLOATS>
GV_FN void gv_start_copy(float* to, const float* from, bool valid) {
    const gv_i32 bytes = valid ? 4 * FLOATS : 0;
    if constexpr (FLOATS == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(gv_shared(to)), "l"(from), "r"(bytes) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(gv_shared(to)), "l"(from), "r"(bytes) : "memory");
}
GV_FN void gv_end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <gv_i32 GROUPS>
GV_FN void gv_wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

// A row of matrices in the memory of a team, which this lane passes to the functions below. The empty assembly hides how the address
// was computed: a load then adds a constant to it in its own instruction, instead of a sum for each load.
struct GvMatrixRow {
    gv_u32 at;
};
GV_FN GvMatrixRow gv_matrix_row(const GvHalf* row) {
    GvMatrixRow of = {gv_shared(row)};
    asm("" : "+r"(of.at));
    return of;
}

// Loads four matrices of 8 x 8 numbers. Lane 8 i + r passes a row, and `further` numbers behind it lies row r of matrix i. word[i]
// gets the numbers 2 t and 2 t + 1 of row g of matrix i, for lane 4 g + t.
GV_FN void gv_load_matrices(const GvGroup&, GvMatrixRow row, gv_i32 further, gv_u32 (&word)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "r"(row.at + 2 * further) : "memory");
}

// The same for transposed matrices: word[i] gets the numbers g of the rows 2 t and 2 t + 1.
GV_FN void gv_load_transposed(const GvGroup&, GvMatrixRow row, gv_i32 further, gv_u32 (&word)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "r"(row.at + 2 * further) : "memory");
}

// sums += a b for matrices a of 16 x 16, b of 16 x 8 and sums of 16 x 8. In lane 4 g + t, with pairs in a word:
//   a     rows g and g + 8 of the columns 2 t and 2 t + 1, then of the columns 8 further
//   b     rows 2 t and 2 t + 1 of the column g, then 8 rows further
//   sums  row g of the columns 2 t and 2 t + 1, then row g + 8
GV_FN void gv_multiply_matrices(const GvGroup&, float (&sums)[4], const gv_u32 (&a)[4], gv_u32 b0, gv_u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// a b + c, rounded once; on the host twice.
GV_FN float gv_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// 2^x and log2 x, within two ulps, or 2^-22 for a logarithm near 0. Powers below 2^-126 are 0.
GV_FN float gv_exp2_guess(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
GV_FN float gv_log2_guess(float x) {
    float logarithm;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(logarithm) : "f"(x));
    return logarithm;
}

// The larger of two numbers; x if y is NaN. lib/math.h has those of kernels whose bits are the same everywhere.
GV_FN float gv_larger(float x, float y) { return fmaxf(x, y); }

// x between -limit and limit. NaN stays.
GV_FN float gv_limited(float x, float limit) {
    asm("max.NaN.f32 %0, %0, %1; min.NaN.f32 %0, %0, %2;" : "+f"(x) : "f"(-limit), "f"(limit));
    return x;
}
