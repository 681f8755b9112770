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

// A number of a tile; one out of the range of 16 bits becomes infinite.
template <gv_i32 STRIDE>
GV_FN void gv_set(GvTile<STRIDE> tile, gv_i32 row, gv_i32 column, float value) {
    tile.at[row * STRIDE + column] = gv_half(value);
}
