// Tiles of the learner's kernels: products by name, and the layout of tiles in the memory of a team.
#pragma once
#include "lib/math.h"
#include "target/tile.h"

GV_FN constexpr gv_i32 gv_up_to(gv_i32 n, gv_i32 multiple) { return (n + multiple - 1) / multiple * multiple; }
GV_FN constexpr gv_i32 gv_larger(gv_i32 a, gv_i32 b) { return a > b ? a : b; }

// Numbers between two rows of a tile with `columns` columns: an odd number of 16 bytes, so that eight rows lie in different banks.
GV_FN constexpr gv_i32 gv_stride(gv_i32 columns) { return (gv_up_to(columns, 8) / 8 | 1) * 8; }

// sums += a w^T: `a` are the group's rows, K columns; w is a tile (N, K), as torch stores the weights of a linear layer.
template <gv_i32 K, gv_i32 ROWS, gv_i32 N, class Left, gv_i32 STRIDE>
GV_FN void gv_add_layer(GvSums<ROWS, N>& sums, const GvGroup& group, const Left& a, GvTile<STRIDE> w) {
    gv_add_product_of<K, true>(sums, group, a, w);
}

// sums += a w: w is a tile (K, N).
template <gv_i32 K, gv_i32 ROWS, gv_i32 N, class Left, gv_i32 STRIDE>
GV_FN void gv_add_product(GvSums<ROWS, N>& sums, const GvGroup& group, const Left& a, GvTile<STRIDE> w) {
    gv_add_product_of<K, false>(sums, group, a, w);
}
