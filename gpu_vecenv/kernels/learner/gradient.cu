// The update of PPO for networks without a shared trunk: three kernels for each minibatch.
//
//   gv_gradient  a team computes the gradient of one network over its tiles of rows, in sums that stay in registers
//   gv_reduce    adds the sums of all teams, in a fixed order
//   gv_adam      clips the gradient and takes the step, or leaves it out
//
// A group computes its rows from their features to the derivatives of all layers without waiting for others; then the team
// multiplies derivatives and units over all rows of the tile. Derivatives are scaled by a power of two, so that 16 bits hold them;
// those of hidden layers by GV_SCALE more, which is the scale of slopes.
#include "learner/backward.h"
#include "learner/load_network.h"
#include "learner/partial.h"
#include "learner/adam.h"

// Tiles of a team, as numbers of 16 bits behind the network: features, units and derivatives of each layer, derivatives of outputs.
GV_TABLE(gv_units_at, GV_UNITS_AT)  // behind the network; the derivatives of a layer follow its units
#define GV_SCRATCH (GV_HALVES * (gv_i32)sizeof(GvHalf) / 4 + GV_FLOATS)

template <gv_i32 OUTPUTS>
struct GvBlock {
    GvNetwork<OUTPUTS> network;
    GvHalf* tiles;
    float *outputs, *prefetched;  // [GV_ROWS, GV_OUTPUT_STRIDE], and see gv_prefetched()
};
template <gv_i32 OUTPUTS>
GV_FN GvBlock<OUTPUTS> gv_block(const GvLanes& team) {
    GvHalf* halves = (GvHalf*)team.scratch;
    float* floats = (float*)(halves + GV_HALVES);
    GvHalf* tiles = halves + GV_TILES_AT;
    return {{halves, floats}, tiles, floats + GV_OUTPUTS_AT, floats + GV_PREFETCH_AT};
}
template <gv_i32 LAYER>
GV_FN GvTile<gv_unit_stride(LAYER)> gv_unit_tile(GvHalf* tiles) {
    return {tiles + gv_units_at(LAYER)};
}
template <gv_i32 LAYER>
GV_FN GvTile<gv_unit_stride(LAYER)> gv_delta_tile(GvHalf* tiles) {
    return {tiles + gv_units_at(LAYER) + GV_ROWS * gv_unit_stride(LAYER)};
}
GV_FN GvTile<GV_DELTA_STRIDE> gv_last_deltas(GvHalf* tiles) { return {tiles + gv_units_at(GV_LAST)}; }

// Slopes of layers 1 .. LAYER.
template <gv_i32 ROWS, gv_i32 LAYER>
struct GvSlopes : GvSlopes<ROWS, LAYER - 1> {
    GvRows<ROWS, gv_width(LAYER)> slope;
};
template <gv_i32 ROWS>
struct GvSlopes<ROWS, 0> {};
template <gv_i32 LAYER, gv_i32 ROWS>
GV_FN GvRows<ROWS, gv_width(LAYER)>& gv_slope(GvSlopes<ROWS, GV_LAYERS>& slopes) {
    return static_cast<GvSlopes<ROWS, LAYER>&>(slopes).slope;
}

// Keeps slopes in registers and units in tiles.
struct GvKept {
    GvSlopes<GV_OWN, GV_LAYERS> slopes;
    GvHalf* tiles;
    gv_i32 row;
};
template <gv_i32 LAYER, gv_i32 ROWS, gv_i32 N>
GV_FN void gv_keep_units(GvKept& kept, const GvGroup& group, const GvRows<ROWS, N>& units, gv_i32 first) {
    gv_store(units, group, gv_part(gv_unit_tile<LAYER>(kept.tiles), kept.row, first));
}
template <gv_i32 LAYER>
GV_FN void gv_keep_slopes(GvKept& kept, const GvPlace& place, gv_i32 first, float x, float y) {
    gv_put(gv_slope<LAYER>(kept.slopes), place, first, x, y);
}
template <gv_i32 LAYER, gv_i32 N>
GV_FN GvRows<GV_OWN, N> gv_kept_slopes(GvKept& kept, const GvGroup&, gv_i32 first) {
    return gv_columns<N>(gv_slope<LAYER>(kept.slopes), first);
}
template <gv_i32 LAYER, gv_i32 N>
GV_FN void gv_keep_deltas(GvKept& kept, const GvGroup& group, const GvRows<GV_OWN, N>& deltas, gv_i32 first) {
    gv_store(deltas, group, gv_part(gv_delta_tile<LAYER>(kept.tiles), kept.row, first));
}

// ---- sums of the gradient ----------------------------------------------------------------------------------------

// Sums of the gradient of the hidden layers, over all tiles of a team.
template <gv_i32 LAYER>
struct GvGradient : GvGradient<LAYER - 1> {
    GvSpread<gv_width(LAYER), LAYER == 1 ? (GV_FEATURES + 7) / 8 * 8 : gv_width(LAYER - 1)> sums;
};
template <>
struct GvGradient<0> {};
template <gv_i32 LAYER>
GV_FN void gv_clear_gradient(GvGradient<LAYER>& gradient) {
    gv_clear(gradient.sums);
    if constexpr (LAYER > 1) gv_clear_gradient(static_cast<GvGradient<LAYER - 1>&>(gradient));
}
template <gv_i32 LAYER>
GV_FN void gv_add_gradient(GvGradient<LAYER>& gradient, const GvGroup& group, GvHalf* tiles) {
    const auto deltas = gv_delta_tile<LAYER>(tiles);
    if constexpr (LAYER == 1) {
        gv_add_columns<GV_ROWS>(gradient.sums, group, deltas, GvTile<GV_FEATURE_STRIDE>{tiles});
    } else {
        gv_add_columns<GV_ROWS>(gradient.sums, group, deltas, gv_unit_tile<LAYER - 1>(tiles));
        gv_add_gradient(static_cast<GvGradient<LAYER - 1>&>(gradient), group, tiles);
    }
}

template <gv_i32 LAYER>
GV_FN void gv_write_gradient(const GvGradient<LAYER>& gradient, const GvGroup& group, float* columns, float unscale) {
    gv_write_sums(gradient.sums, group, columns + gv_weight_column(LAYER), 0, gv_units(LAYER), gv_units(LAYER - 1), unscale,
                  false);
    if constexpr (LAYER > 1) gv_write_gradient(static_cast<const GvGradient<LAYER - 1>&>(gradient), group, columns, unscale);
}

// ---- kernels ---------------------------------------------------------------------------------------------------

// Gradient of one network over the tiles `first`, `first` + `blocks`, ...
template <class Head>
GV_FN void gv_network_gradient(const GvArgs& a, const GvLanes& team, gv_i32 first, gv_i32 blocks, float* columns) {
    constexpr gv_i32 OUTPUTS = Head::OUTPUTS, LAST_ROWS = GvNetwork<OUTPUTS>::ROWS;
    const GvGroup group = gv_group(team);
    const GvBlock<OUTPUTS> block = gv_block<OUTPUTS>(team);
    const gv_i32 row = group.number * GV_OWN, tiles = (a.rows + GV_ROWS - 1) / GV_ROWS;
    // Rows are older than the previous kernel, which was the step of the minibatch before. The first minibatch has no such step.
    if (a.minibatch == 0) gv_wait_for_previous();
    GvPrefetched prefetched = gv_prefetched(group, block.prefetched);
    gv_load_samples(prefetched.samples, a, group, first);
    gv_start_features(prefetched, a, group);
    gv_start_rows(prefetched, a, group, Head::NUMBER == 0);
    GvOwnSamples present = prefetched.samples;
    gv_load_samples(prefetched.samples, a, group, first + blocks);
    Head head = {};
    gv_load_settings(prefetched, a, team, Head::NUMBER);
    gv_clear_halves(team, block.tiles, GV_ROWS * GV_FEATURE_STRIDE);  // columns behind features and outputs stay 0
    gv_clear_halves(team, gv_last_deltas(block.tiles).at, GV_ROWS * GV_DELTA_STRIDE);
    gv_wait_for_previous();  // for the weights
    gv_load_network<OUTPUTS, GV_WHOLE>(team, block.network, a.layers[Head::NUMBER], a.norm);

    GvGradient<GV_LAYERS> gradient;
    GvSpread<LAST_ROWS, gv_width(GV_LAYERS)> last;
    gv_clear_gradient(gradient);
    gv_clear(last);
    const GvTile<GV_FEATURE_STRIDE> features = gv_part(GvTile<GV_FEATURE_STRIDE>{block.tiles}, row, 0);
    const auto deltas = gv_part(gv_last_deltas(block.tiles), row, 0);
    float* outputs = block.outputs + row * GV_OUTPUT_STRIDE;
    gv_barrier(team);
    GV_LOOP for (gv_i32 tile = first; tile < tiles; tile += blocks) {
        gv_wait_copies<1>();  // for the features of this tile
        gv_take_features(prefetched, present, a, group, block.network, features);
        gv_start_features(prefetched, a, group);
        gv_group_barrier(group);
        GvKept kept;
        kept.tiles = block.tiles;
        kept.row = row;
        auto sums = gv_forward<GV_OWN>(block.network, group, features, kept);
        gv_store_outputs<OUTPUTS>(sums, group, outputs);
        gv_group_barrier(group);
        gv_wait_copies<1>();  // for the rows of this tile, not for the features of the next one
        gv_group_loss(head, a, group, prefetched, present, outputs, deltas);
        gv_start_rows(prefetched, a, group, Head::NUMBER == 0);
        present = prefetched.samples;
        gv_load_samples(prefetched.samples, a, group, tile + 2 * blocks);
        gv_group_barrier(group);
        gv_backward_from<GV_LAYERS, LAST_ROWS>(block.network, group, deltas, kept);
        gv_barrier(team);
        gv_add_columns<GV_ROWS>(last, group, gv_last_deltas(block.tiles), gv_unit_tile<GV_LAYERS>(block.tiles));
        gv_add_gradient(gradient, group, block.tiles);
        gv_barrier(team);
    }
    gv_start_next();
    const float unscale = 1.0f / prefetched.settings->scale;
    gv_write_gradient(gradient, group, columns, unscale / GV_SCALE);
    gv_write_sums(last, group, columns + gv_weight_column(GV_LAST), 0, OUTPUTS, gv_units(GV_LAYERS), unscale, false);
    gv_write_terms(head, team, (float*)block.tiles, columns + gv_weight_columns(Head::NUMBER), false);
}

GV_FN void gv_gradient_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    const gv_i32 of_critic = block - a.actor_blocks;
    if (of_critic < 0) {
        gv_network_gradient<GvActor>(a, team, block, a.actor_blocks, a.partial + (gv_i64)block * GV_ACTOR_COLUMNS);
    } else {
        float* critic = a.partial + (gv_i64)a.actor_blocks * GV_ACTOR_COLUMNS;
        gv_network_gradient<GvCritic>(a, team, of_critic, a.critic_blocks, critic + (gv_i64)of_critic * GV_CRITIC_COLUMNS);
    }
}

GV_EARLY_KERNEL(gv_gradient, gv_gradient_block)
GV_EARLY_KERNEL(gv_reduce, gv_reduce_columns)
GV_EARLY_KERNEL(gv_adam, gv_adam_columns)
