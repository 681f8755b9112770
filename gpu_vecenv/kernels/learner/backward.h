// Derivatives of a group's rows by the sums of hidden layers, from the outputs down.
//
// A program defines GvKept, which keeps what the forward pass leaves behind and takes the derivatives.
#pragma once
#include "learner/rows.h"

struct GvKept;
template <gv_i32 LAYER, gv_i32 N>  // slopes of N units, from `first` on
GV_FN GvRows<GV_OWN, N> gv_kept_slopes(GvKept& kept, const GvGroup& group, gv_i32 first);
template <gv_i32 LAYER, gv_i32 N>  // derivatives of N units
GV_FN void gv_keep_deltas(GvKept& kept, const GvGroup& group, const GvRows<GV_OWN, N>& deltas, gv_i32 first);

// Derivatives of a layer and those below it; `above` has the K derivatives of the group's rows of the layer above. Those of the
// first layer of a split network go to memory chunk by chunk, as in gv_forward_from().
template <gv_i32 LAYER, gv_i32 K, gv_i32 OUTPUTS, class Above>
GV_FN void gv_backward_from(const GvNetwork<OUTPUTS>& network, const GvGroup& group, const Above& above, GvKept& kept) {
    constexpr gv_i32 WIDTH = gv_width(LAYER), CHUNK = gv_chunk(WIDTH);
    constexpr bool LEAVES = GV_SPLIT && LAYER == 1;
    GvRows<GV_OWN, LEAVES ? CHUNK : WIDTH> deltas;
    const auto chunk = [&](gv_i32 first) {
        const GvRows<GV_OWN, CHUNK> slopes = gv_kept_slopes<LAYER, CHUNK>(kept, group, first);
        GvSums<GV_OWN, CHUNK> sums;
        gv_clear(sums);
        gv_add_product<K>(sums, group, above, gv_part(gv_weights<LAYER + 1>(network), 0, first));
        gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
            float one, two;
            gv_get(slopes, place, 0, one, two);
            gv_put_finite(deltas, place, LEAVES ? 0 : first, x * one, y * two);
        });
        if constexpr (LEAVES) gv_keep_deltas<LAYER>(kept, group, deltas, first);
    };
    if constexpr (LEAVES) {
        GV_LOOP for (gv_i32 first = 0; first < WIDTH; first += CHUNK) chunk(first);
    } else {
        GV_UNROLL for (gv_i32 first = 0; first < WIDTH; first += CHUNK) chunk(first);
        gv_keep_deltas<LAYER>(kept, group, deltas, 0);
        if constexpr (LAYER > 1) gv_backward_from<LAYER - 1, WIDTH>(network, group, deltas, kept);
    }
}
