// The functions of cuda_warp.h for lanes, 32 threads a warp. Lanes exchange words through memory, between two barriers.
#pragma once
#include "target/half.h"
#include "target/tile_types.h"
static_assert(GV_LANES % 32 == 0, "a warp has 32 lanes");

struct GvHalf {
    gv_u16 bits;
};
struct GvGroup {
    gv_i32 number, lane;
};

struct GvWarp {
    pthread_barrier_t barrier;
    const GvHalf* rows[32];
    gv_u32 words[32][6];
    GvWarp() { pthread_barrier_init(&barrier, nullptr, 32); }
};
static GvWarp gv_warps[GV_LANES / 32];

GV_FN GvGroup gv_group(const GvLanes& team) { return {team.lane >> 5, team.lane & 31}; }
GV_FN void gv_group_barrier(const GvGroup& group) { pthread_barrier_wait(&gv_warps[group.number].barrier); }

GV_FN gv_i32 gv_from_lane(const GvGroup& group, gv_i32 value, gv_i32 lane) {
    GvWarp& warp = gv_warps[group.number];
    warp.words[group.lane][0] = (gv_u32)value;
    gv_group_barrier(group);
    const gv_i32 found = (gv_i32)warp.words[lane][0];
    gv_group_barrier(group);
    return found;
}

GV_FN gv_u32 gv_ballot(const GvGroup& group, bool condition) {
    GvWarp& warp = gv_warps[group.number];
    warp.words[group.lane][0] = condition;
    gv_group_barrier(group);
    gv_u32 word = 0;
    for (gv_i32 lane = 0; lane < 32; ++lane) word |= (gv_u32)(warp.words[lane][0] != 0) << lane;
    gv_group_barrier(group);
    return word;
}
GV_FN bool gv_group_any(const GvGroup& group, bool condition) { return gv_ballot(group, condition) != 0; }

GV_FN GvHalf gv_half(float value) { return {gv_half_bits(gv_rounded_to_half(value))}; }
GV_FN float gv_float(GvHalf half) { return gv_of_half_bits(half.bits); }
GV_FN gv_u32 gv_pack(float first, float second) { return gv_half(first).bits | (gv_u32)gv_half(second).bits << 16; }
GV_FN float gv_finite_half(float x) { return x > GV_LARGEST_HALF ? GV_LARGEST_HALF : x < -GV_LARGEST_HALF ? -GV_LARGEST_HALF : x; }
GV_FN gv_u32 gv_pack_finite(float first, float second) { return gv_pack(gv_finite_half(first), gv_finite_half(second)); }
GV_FN void gv_halves_or_nan(float x, float y, GvHalf& first, GvHalf& second) {
    first.bits = gv_half_bits(gv_half_or_nan_value(x));
    second.bits = gv_half_bits(gv_half_or_nan_value(y));
}
GV_FN float gv_of_word(gv_u32 word, gv_i32 number) { return gv_of_half_bits((gv_u16)(number & 1 ? word >> 16 : word)); }
GV_FN void gv_unpack(gv_u32 word, float& first, float& second) {
    first = gv_of_word(word, 0);
    second = gv_of_word(word, 1);
}

// `at(i, row, number)` is a number of matrix i.
template <class At>
GV_FN void gv_load_words(const GvGroup& group, const GvHalf* row, gv_u32 (&word)[4], bool transposed, At at) {
    GvWarp& warp = gv_warps[group.number];
    warp.rows[group.lane] = row;
    gv_group_barrier(group);
    const gv_i32 g = group.lane >> 2, t = group.lane & 3;
    for (gv_i32 i = 0; i < 4; ++i) {
        const gv_u16 first = transposed ? at(warp, i, 2 * t, g) : at(warp, i, g, 2 * t);
        const gv_u16 second = transposed ? at(warp, i, 2 * t + 1, g) : at(warp, i, g, 2 * t + 1);
        word[i] = first | (gv_u32)second << 16;
    }
    gv_group_barrier(group);
}
GV_FN gv_u16 gv_matrix_number(const GvWarp& warp, gv_i32 i, gv_i32 row, gv_i32 number) {
    return warp.rows[8 * i + row][number].bits;
}
struct GvMatrixRow {
    const GvHalf* at;
};
GV_FN GvMatrixRow gv_matrix_row(const GvHalf* row) { return {row}; }
GV_FN void gv_load_matrices(const GvGroup& group, GvMatrixRow row, gv_i32 further, gv_u32 (&word)[4]) {
    gv_load_words(group, row.at + further, word, false, gv_matrix_number);
}
GV_FN void gv_load_transposed(const GvGroup& group, GvMatrixRow row, gv_i32 further, gv_u32 (&word)[4]) {
    gv_load_words(group, row.at + further, word, true, gv_matrix_number);
}

GV_FN void gv_multiply_matrices(const GvGroup& group, float (&sums)[4], const gv_u32 (&a)[4], gv_u32 b0, gv_u32 b1) {
    GvWarp& warp = gv_warps[group.number];
    gv_u32* own = warp.words[group.lane];
    for (gv_i32 i = 0; i < 4; ++i) own[i] = a[i];
    own[4] = b0;
    own[5] = b1;
    gv_group_barrier(group);
    for (gv_i32 i = 0; i < 4; ++i) {
        const gv_i32 row = (group.lane >> 2) + (i >> 1) * 8, column = 2 * (group.lane & 3) + (i & 1);
        for (gv_i32 k = 0; k < 16; ++k) {
            const gv_i32 pair = (k & 7) >> 1, later = k >> 3;
            const float left = gv_of_word(warp.words[(row & 7) * 4 + pair][(row >> 3) + 2 * later], k);
            sums[i] += left * gv_of_word(warp.words[column * 4 + pair][4 + later], k);
        }
    }
    gv_group_barrier(group);
}
