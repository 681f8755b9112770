// Loads a network from torch's weights to the memory of a team.
#pragma once
#include "learner/network.h"

// N numbers on their way from global memory to the memory of the team. load() starts all loads, if they fit in the registers of
// the lanes, so that the team waits once for several arrays; otherwise store() loads 16 of a lane at a time.
template <gv_i32 N>
struct GvPiece {
    static constexpr gv_i32 EACH = (N + GV_TEAM_LANES - 1) / GV_TEAM_LANES;
    static constexpr bool IN_REGISTERS = EACH <= 16;
    float v[IN_REGISTERS && EACH > 0 ? EACH : 1];
};
template <gv_i32 N, class Load>
GV_FN void gv_load_piece(GvPiece<N>& piece, const GvLanes& team, Load load) {
    if constexpr (GvPiece<N>::IN_REGISTERS) {
        GV_UNROLL for (gv_i32 j = 0; j < GvPiece<N>::EACH; ++j) {
            const gv_i32 i = team.lane + j * GV_TEAM_LANES;
            piece.v[j] = N % GV_TEAM_LANES == 0 || i < N ? load(i) : 0.0f;
        }
    }
}
template <gv_i32 N, class Load, class Store>
GV_FN void gv_store_piece(const GvPiece<N>& piece, const GvLanes& team, Load load, Store store) {
    if constexpr (GvPiece<N>::IN_REGISTERS) {
        GV_UNROLL for (gv_i32 j = 0; j < GvPiece<N>::EACH; ++j) {
            const gv_i32 i = team.lane + j * GV_TEAM_LANES;
            if (N % GV_TEAM_LANES == 0 || i < N) store(i, piece.v[j]);
        }
    } else {
        constexpr gv_i32 SOME = 16;
        GV_LOOP for (gv_i32 first = team.lane; first < N; first += SOME * GV_TEAM_LANES) {
            float value[SOME];
            GV_UNROLL for (gv_i32 j = 0; j < SOME; ++j) {
                const gv_i32 i = first + j * GV_TEAM_LANES;
                value[j] = i < N ? load(i) : 0.0f;
            }
            GV_UNROLL for (gv_i32 j = 0; j < SOME; ++j) {
                const gv_i32 i = first + j * GV_TEAM_LANES;
                if (i < N) store(i, value[j]);
            }
        }
    }
}

// Weight of a place of a layer in memory: 0 in the padding.
template <gv_i32 LAYER, gv_i32 OUTPUTS>
GV_FN float gv_weight_of(const GvLayer* layers, gv_i32 i) {
    constexpr gv_i32 COLUMNS = LAYER == 1 ? GV_HIGH_COLUMNS : gv_width(LAYER - 1);
    constexpr gv_i32 UNITS = LAYER == GV_LAST ? OUTPUTS : gv_units(LAYER), FROM = gv_units(LAYER - 1);
    const gv_i32 unit = i / COLUMNS, from = i % COLUMNS;
    return unit < UNITS && from < FROM ? gv_scaled(LAYER, layers[LAYER - 1].weight[unit * FROM + from]) : 0.0f;
}
template <gv_i32 LAYER, gv_i32 OUTPUTS>
GV_FN void gv_store_weight(const GvNetwork<OUTPUTS>& network, gv_i32 i, float w) {
    constexpr gv_i32 COLUMNS = LAYER == 1 ? GV_HIGH_COLUMNS : gv_width(LAYER - 1);
    const gv_i32 unit = i / COLUMNS, from = i % COLUMNS;
    const auto tile = gv_weights<LAYER>(network);
    if (LAYER > 1 || from < GV_FEATURES) gv_set(tile, unit, from, w);
    if (LAYER == 1) {
        if (from < GV_FEATURES) gv_set(tile, unit, GV_FEATURES + from, w);
        if (from < GV_FEATURE_COLUMNS - 2 * GV_FEATURES) gv_set(tile, unit, 2 * GV_FEATURES + from, 0.0f);
        gv_set(tile, unit, GV_FEATURE_COLUMNS + from, gv_rest(w));
    }
    if (LAYER == GV_LAST && unit < GvNetwork<OUTPUTS>::COLUMNS) gv_set(gv_last_low(network), unit, from, gv_rest(w));
}

// Biases and the numbers of the normalisation, in their order in memory.
template <gv_i32 LAYER, gv_i32 OUTPUTS>
GV_FN float gv_bias_of(const GvLayer* layers, gv_i32 i) {
    if constexpr (LAYER < GV_LAST) {
        if (i >= gv_biases_at(LAYER + 1)) return gv_bias_of<LAYER + 1, OUTPUTS>(layers, i);
    }
    constexpr gv_i32 UNITS = LAYER == GV_LAST ? OUTPUTS : gv_units(LAYER);
    const gv_i32 unit = i - gv_biases_at(LAYER);
    return unit < UNITS ? gv_scaled(LAYER, layers[LAYER - 1].bias[unit]) : 0.0f;
}
template <gv_i32 OUTPUTS>
GV_FN float gv_float_of(const GvLayer* layers, const GvNorm& norm, gv_i32 i) {
    const gv_i32 number = i - gv_biases_at(GV_LAST) - GvNetwork<OUTPUTS>::COLUMNS;
    if (number < 0) return gv_bias_of<1, OUTPUTS>(layers, i);
    const gv_i32 feature = number % GV_FEATURES, of = number / GV_FEATURES;
    return of == 0 ? norm.offset[feature] : of == 1 ? norm.scale[feature] : norm.shift[feature];
}

// Layers that a kernel loads: all, or the first one or the others of a split network.
#define GV_WHOLE 0
#define GV_FIRST 1
#define GV_UPPER 2

// Loads a network. A barrier must follow.
template <gv_i32 OUTPUTS, gv_i32 PART>
GV_FN void gv_load_network(const GvLanes& team, const GvNetwork<OUTPUTS>& network, const GvLayer* layers, const GvNorm& norm) {
    constexpr gv_i32 SECOND = GV_LAYERS > 1 ? 2 : 1, THIRD = GV_LAYERS > 2 ? 3 : 1;  // layer 1 again, unused, if there is none
    constexpr bool LOWER = PART != GV_UPPER, UPPER = PART != GV_FIRST;
    GvPiece<LOWER ? gv_width(1) * GV_HIGH_COLUMNS : 0> first;
    GvPiece<UPPER ? gv_width(2) * gv_width(1) : 0> second;
    GvPiece<UPPER ? gv_width(3) * gv_width(2) : 0> third;
    GvPiece<UPPER ? GvNetwork<OUTPUTS>::ROWS * gv_width(GV_LAYERS) : 0> last;
    GvPiece<GvNetwork<OUTPUTS>::FLOATS> floats;
    const auto of_first = [&](gv_i32 i) { return gv_weight_of<1, OUTPUTS>(layers, i); };
    const auto of_second = [&](gv_i32 i) { return gv_weight_of<SECOND, OUTPUTS>(layers, i); };
    const auto of_third = [&](gv_i32 i) { return gv_weight_of<THIRD, OUTPUTS>(layers, i); };
    const auto of_last = [&](gv_i32 i) { return gv_weight_of<GV_LAST, OUTPUTS>(layers, i); };
    const auto of_floats = [&](gv_i32 i) { return gv_float_of<OUTPUTS>(layers, norm, i); };
    gv_load_piece(first, team, of_first);
    gv_load_piece(second, team, of_second);
    gv_load_piece(third, team, of_third);
    gv_load_piece(last, team, of_last);
    gv_load_piece(floats, team, of_floats);
    const auto to_first = [&](gv_i32 i, float w) { gv_store_weight<1>(network, i, w); };
    const auto to_second = [&](gv_i32 i, float w) { gv_store_weight<SECOND>(network, i, w); };
    const auto to_third = [&](gv_i32 i, float w) { gv_store_weight<THIRD>(network, i, w); };
    gv_store_piece(first, team, of_first, to_first);
    gv_store_piece(second, team, of_second, to_second);
    gv_store_piece(third, team, of_third, to_third);
    gv_store_piece(last, team, of_last, [&](gv_i32 i, float w) { gv_store_weight<GV_LAST>(network, i, w); });
    gv_store_piece(floats, team, of_floats, [&](gv_i32 i, float x) { network.floats[i] = x; });
}
