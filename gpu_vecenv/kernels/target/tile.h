// Products of tiles of 16-bit numbers with sums in float, for the kernels of the learner (kernels/learner).
//
// A team computes on tiles of rows. It consists of groups: on CUDA a group is a warp, on the host it is the whole team. A group
// owns some rows of each tile, see gv_group_rows(); what it keeps for them is spread over its lanes:
//
//   GvSums<ROWS, N>    sums of the group's rows, float
//   GvRows<ROWS, N>    16-bit numbers of the group's rows, in registers: operands of further products
//   GvSpread<M, N>     sums over all rows of a tile, spread over the whole team
//
// The host's products are plain loops. CUDA and lanes share warp_tile.h; lanes emulate the instructions of a warp.
#pragma once
#include "target/tile_types.h"
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#include "target/cuda_warp.h"
#else  // a text with all headers inserted has each once, so both branches below need this one here
#include "target/half.h"
#ifdef GV_LANES
#include "target/lanes_warp.h"
#else
#include "target/host_tile.h"
#endif
#endif
#if defined(__CUDACC_RTC__) || defined(__CUDACC__) || defined(GV_LANES)
#include "target/warp_tile.h"
#endif

// Part of a tile, from a row and a column on; the column is a multiple of 8.
template <gv_i32 STRIDE>
GV_FN GvTile<STRIDE> gv_part(GvTile<STRIDE> tile, gv_i32 row, gv_i32 column) {
    return {tile.at + row * STRIDE + column};
}
// Part of stripes; the row is a multiple of 16 and the column of 8.
template <gv_i32 COLUMNS>
GV_FN GvStripes<COLUMNS> gv_part(GvStripes<COLUMNS> stripes, gv_i32 row, gv_i32 column) {
    return {stripes.at + (gv_i64)row * COLUMNS + column / 8 * GvStripes<COLUMNS>::RIGHT};
}

// A number of a tile; one out of the range of 16 bits becomes infinite.
template <gv_i32 STRIDE>
GV_FN void gv_set(GvTile<STRIDE> tile, gv_i32 row, gv_i32 column, float value) {
    tile.at[row * STRIDE + column] = gv_half(value);
}

// Copies a row of a matrix.
struct alignas(16) GvEight {
    GvHalf number[8];
};
GV_FN void gv_copy_eight(GvHalf* to, const GvHalf* from) { *(GvEight*)to = *(const GvEight*)from; }

// Copies the first N columns of the group's rows of a tile to stripes; both start with the group's first row.
template <gv_i32 ROWS, gv_i32 N, gv_i32 STRIDE, gv_i32 COLUMNS>
GV_FN void gv_copy_rows(const GvGroup& group, GvTile<STRIDE> tile, GvStripes<COLUMNS> stripes) {
    GV_GROUP_FOR(i, ROWS * N / 8) {
        const gv_i32 row = i % ROWS, column = i / ROWS * 8;
        gv_copy_eight(stripes.at + gv_place_of<GvStripes<COLUMNS>>(row, column), tile.at + row * STRIDE + column);
    }
}

// Clears the first N columns of the group's rows in stripes that start with its first row.
template <gv_i32 ROWS, gv_i32 N, gv_i32 COLUMNS>
GV_FN void gv_clear_rows(const GvGroup& group, GvStripes<COLUMNS> stripes) {
    GV_GROUP_FOR(i, ROWS * N / 8) {
        *(GvEight*)(stripes.at + gv_place_of<GvStripes<COLUMNS>>(i % ROWS, i / ROWS * 8)) = GvEight{};
    }
}

// Starts the copies of ROWS rows of N columns of stripes to stripes in the memory of the team, see gv_start_copy().
template <gv_i32 ROWS, gv_i32 N, gv_i32 COLUMNS>
GV_FN void gv_start_stripes(const GvLanes& team, GvStripes<N> to, GvStripes<COLUMNS> from) {
    constexpr gv_i32 FLOATS = 16 * N * (gv_i32)sizeof(GvHalf) / 4;  // of a stripe
    GV_FOR(i, ROWS / 16 * FLOATS / 4) {
        const gv_i32 stripe = i / (FLOATS / 4), at = i % (FLOATS / 4) * 4;
        gv_start_copy<4>((float*)(to.at + stripe * to.NEXT) + at, (const float*)(from.at + stripe * from.NEXT) + at, true);
    }
}
