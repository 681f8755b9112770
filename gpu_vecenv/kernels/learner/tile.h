// Products of tiles by name.
#pragma once
#include "lib/math.h"
#include "target/tile.h"

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
