// Networks of a policy on tiles of rows: an actor and a critic with hidden layers of their own, of equal sizes.
//
// A program defines the sizes: GV_FEATURES, GV_LAYERS (1 to 3) hidden layers of GV_HIDDEN_1, GV_HIDDEN_2 and GV_HIDDEN_3 units,
// and GV_ACTIVATION. OUTPUTS, the number of outputs, is a template argument. Widths in memory are multiples of 16; units that fill
// up have weights of 0.
//
// Hidden layers multiply numbers of 16 bits. The first and the last layer are nearly exact: both operands have a high part of 16
// bits and a low part, the rest, and the product of the low parts is left out.
#pragma once
#include "learner/tile.h"

#define GV_TANH 0
#define GV_RELU 1
#define GV_ELU 2

// Weights as torch stores them, (outputs, inputs), and biases. The last layer is number GV_LAYERS.
struct GvLayer {
    const float *weight, *bias;
};

// Normalisation of features: (x - offset) scale + shift, clipped to [-limit, limit]; arrays of [GV_FEATURES].
struct GvNorm {
    const float *offset, *scale, *shift;
    float limit;
};

// Units of a layer and its width in memory; layer 0 are the features.
GV_FN constexpr gv_i32 gv_units(gv_i32 layer) {
    return layer == 0 ? GV_FEATURES : layer == 1 ? GV_HIDDEN_1 : layer == 2 ? GV_HIDDEN_2 : GV_HIDDEN_3;
}
GV_FN constexpr gv_i32 gv_width(gv_i32 layer) { return gv_up_to(gv_units(layer), 16); }

// Columns of features in a tile: their high parts, then their low parts. The columns of the high parts alone end within low parts.
#define GV_FEATURE_COLUMNS gv_up_to(2 * GV_FEATURES, 16)
#define GV_HIGH_COLUMNS gv_up_to(GV_FEATURES, 16)

// Columns of a layer's weights in memory. In the first layer they are high parts for both parts of features, then low parts.
GV_FN constexpr gv_i32 gv_weight_columns(gv_i32 layer) {
    return layer == 1 ? GV_FEATURE_COLUMNS + GV_HIGH_COLUMNS : gv_width(layer - 1);
}
GV_FN constexpr gv_i32 gv_weight_stride(gv_i32 layer) { return gv_stride(gv_weight_columns(layer)); }

// Place of the weights of layer 1 .. GV_LAYERS + 1, the last one, in numbers of 16 bits.
GV_FN constexpr gv_i32 gv_weights_at(gv_i32 layer) {
    return layer == 1 ? 0 : gv_weights_at(layer - 1) + gv_width(layer - 1) * gv_weight_stride(layer - 1);
}
// Place of the biases of such a layer, in floats.
GV_FN constexpr gv_i32 gv_biases_at(gv_i32 layer) { return layer == 1 ? 0 : gv_biases_at(layer - 1) + gv_width(layer - 1); }

#define GV_LAST (GV_LAYERS + 1)
#define GV_LAST_STRIDE gv_weight_stride(GV_LAST)

// A network in the memory of a team: weights of 16 bits, then floats.
template <gv_i32 OUTPUTS>
struct GvNetwork {
    static constexpr gv_i32 COLUMNS = (OUTPUTS + 7) / 8 * 8, ROWS = (OUTPUTS + 15) / 16 * 16;  // of the last layer
    static constexpr gv_i32 HALVES = gv_weights_at(GV_LAST) + (ROWS + COLUMNS) * GV_LAST_STRIDE;
    static constexpr gv_i32 FLOATS = gv_biases_at(GV_LAST) + COLUMNS + 3 * GV_FEATURES;
    GvHalf* weights;
    float* floats;
};
template <gv_i32 LAYER, gv_i32 OUTPUTS>
GV_FN GvTile<gv_weight_stride(LAYER)> gv_weights(const GvNetwork<OUTPUTS>& network) {
    return {network.weights + gv_weights_at(LAYER)};
}
// The low parts of the last layer.
template <gv_i32 OUTPUTS>
GV_FN GvTile<GV_LAST_STRIDE> gv_last_low(const GvNetwork<OUTPUTS>& network) {
    return gv_part(gv_weights<GV_LAST>(network), GvNetwork<OUTPUTS>::ROWS, 0);
}

// ---- loading ---------------------------------------------------------------------------------------------------

// store(i, load(i)) for i in [0, N), eight loads at a time: otherwise a lane would wait for each load before the next one.
template <gv_i32 N, class Load, class Store>
GV_FN void gv_transfer(const GvTeam& team, Load load, Store store) {
    GV_LOOP for (gv_i32 first = team.lane; first < N; first += 8 * team.lanes) {
        float value[8];
        GV_UNROLL for (gv_i32 j = 0; j < 8; ++j) {
            const gv_i32 i = first + j * team.lanes;
            value[j] = i < N ? load(i) : 0.0f;
        }
        GV_UNROLL for (gv_i32 j = 0; j < 8; ++j) {
            const gv_i32 i = first + j * team.lanes;
            if (i < N) store(i, value[j]);
        }
    }
}

GV_FN float gv_rest(float x) { return x - gv_float(gv_half(x)); }

template <gv_i32 LAYER, gv_i32 OUTPUTS>
GV_FN void gv_load_hidden(const GvTeam& team, const GvNetwork<OUTPUTS>& network, const GvLayer* layers) {
    constexpr gv_i32 WIDTH = gv_width(LAYER), COLUMNS = gv_weight_columns(LAYER);
    constexpr gv_i32 UNITS = gv_units(LAYER), FROM = gv_units(LAYER - 1);
    const auto tile = gv_weights<LAYER>(network);
    const float* weight = layers[LAYER - 1].weight;
    gv_transfer<WIDTH * COLUMNS>(
        team,
        [&](gv_i32 i) {
            const gv_i32 unit = i / COLUMNS, column = i % COLUMNS;
            const bool low = LAYER == 1 && column >= GV_FEATURE_COLUMNS;
            const gv_i32 from = low ? column - GV_FEATURE_COLUMNS : LAYER == 1 && column >= FROM ? column - FROM : column;
            const float w = unit < UNITS && from < FROM ? weight[unit * FROM + from] : 0.0f;
            return low ? gv_rest(w) : w;
        },
        [&](gv_i32 i, float w) { gv_set(tile, i / COLUMNS, i % COLUMNS, w); });
    float* biases = network.floats + gv_biases_at(LAYER);
    GV_FOR(unit, WIDTH) biases[unit] = unit < UNITS ? layers[LAYER - 1].bias[unit] : 0.0f;
}

// Loads a network, whose OUTPUTS rows of the last layer follow its hidden layers. A barrier must follow.
template <gv_i32 OUTPUTS>
GV_FN void gv_load_network(const GvTeam& team, const GvNetwork<OUTPUTS>& network, const GvLayer* layers, const GvNorm& norm) {
    typedef GvNetwork<OUTPUTS> Network;
    constexpr gv_i32 WIDTH = gv_width(GV_LAYERS), UNITS = gv_units(GV_LAYERS);
    gv_load_hidden<1>(team, network, layers);
    if constexpr (GV_LAYERS > 1) gv_load_hidden<2>(team, network, layers);
    if constexpr (GV_LAYERS > 2) gv_load_hidden<3>(team, network, layers);
    const auto high = gv_weights<GV_LAST>(network), low = gv_last_low(network);
    const float* weight = layers[GV_LAYERS].weight;
    gv_transfer<Network::ROWS * WIDTH>(
        team,
        [&](gv_i32 i) { return i / WIDTH < OUTPUTS && i % WIDTH < UNITS ? weight[i / WIDTH * UNITS + i % WIDTH] : 0.0f; },
        [&](gv_i32 i, float w) {
            gv_set(high, i / WIDTH, i % WIDTH, w);
            if (i / WIDTH < Network::COLUMNS) gv_set(low, i / WIDTH, i % WIDTH, gv_rest(w));
        });
    float* biases = network.floats + gv_biases_at(GV_LAST);
    GV_FOR(i, Network::COLUMNS) biases[i] = i < OUTPUTS ? layers[GV_LAYERS].bias[i] : 0.0f;
    float* numbers = biases + Network::COLUMNS;
    GV_FOR(i, GV_FEATURES) {
        numbers[i] = norm.offset[i];
        numbers[GV_FEATURES + i] = norm.scale[i];
        numbers[2 * GV_FEATURES + i] = norm.shift[i];
    }
}

// Stores a feature of a row, normalised, in a tile of GV_FEATURE_COLUMNS columns; those behind the parts must be 0.
template <gv_i32 OUTPUTS, gv_i32 STRIDE>
GV_FN void gv_set_feature(const GvNetwork<OUTPUTS>& network, GvTile<STRIDE> tile, gv_i32 row, gv_i32 i, float x, float limit) {
    const float* numbers = network.floats + gv_biases_at(GV_LAST) + GvNetwork<OUTPUTS>::COLUMNS;
    const float moved = (x - numbers[i]) * numbers[GV_FEATURES + i] + numbers[2 * GV_FEATURES + i];
    const float normal = gv_clamp(moved, -limit, limit);
    gv_set(tile, row, i, normal);
    gv_set(tile, row, GV_FEATURES + i, gv_rest(normal));
}

// ---- forward ---------------------------------------------------------------------------------------------------

// A unit: its value, and the derivative by its sum.
struct GvUnit {
    float value, slope;
};

// 1 - tanh^2 comes from e = exp(-2 |x|). From a rounded tanh it would be lost where units are saturated.
GV_FN GvUnit gv_activated(float x) {
    if constexpr (GV_ACTIVATION == GV_TANH) {
        const float e = gv_exp2_guess(-2.8853900817779268f * gv_abs(x)), inverse = gv_reciprocal_guess(1.0f + e);
        const float size = (1.0f - e) * inverse;
        return {gv_flipped(size, (gv_u32)gv_bits(x) & 0x80000000u), 4.0f * e * inverse * inverse};
    }
    if constexpr (GV_ACTIVATION == GV_RELU) return {x < 0.0f ? 0.0f : x, x > 0.0f ? 1.0f : 0.0f};
    const float e = gv_exp2_guess(1.4426950408889634f * gv_min(x, 0.0f));
    return {x > 0.0f ? x : e - 1.0f, x > 0.0f ? 1.0f : e};
}

// Derivatives are kept as numbers of 16 bits, which are normal from 2e-9 on by this factor.
#define GV_SLOPE_SCALE 32768.0f

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

// Columns that a group computes at a time: fewer need fewer registers.
GV_FN constexpr gv_i32 gv_chunk(gv_i32 columns) { return columns % 32 == 0 ? 32 : 16; }

// Does nothing with the units of a layer and their slopes. Another type may keep them, see gradient.cu.
struct GvForget {};
template <gv_i32 LAYER, gv_i32 ROWS>
GV_FN void gv_keep_units(GvForget&, const GvGroup&, const GvRows<ROWS, gv_width(LAYER)>&) {}
template <gv_i32 LAYER>
GV_FN void gv_keep_slopes(GvForget&, const GvPlace&, gv_i32, float, float) {}

// Computes a hidden layer and those above it, then the outputs. `input` has the group's rows.
template <gv_i32 LAYER, gv_i32 ROWS, gv_i32 OUTPUTS, class Input, class Keep>
GV_FN void gv_forward_from(const GvNetwork<OUTPUTS>& network, const GvGroup& group, const Input& input, Keep& keep,
                           GvSums<ROWS, GvNetwork<OUTPUTS>::COLUMNS>& outputs) {
    constexpr gv_i32 WIDTH = gv_width(LAYER), CHUNK = gv_chunk(WIDTH);
    const float* biases = network.floats + gv_biases_at(LAYER);
    const auto weights = gv_weights<LAYER>(network);
    GvRows<ROWS, WIDTH> high;
    GvRows<ROWS, LAYER == GV_LAYERS ? WIDTH : 16> low;
    GV_UNROLL for (gv_i32 first = 0; first < WIDTH; first += CHUNK) {
        GvSums<ROWS, CHUNK> sums;
        gv_fill(sums, group, biases + first);
        if constexpr (LAYER == 1) {
            gv_add_layer<GV_FEATURE_COLUMNS>(sums, group, input, gv_part(weights, first, 0));
            gv_add_layer<GV_HIGH_COLUMNS>(sums, group, input, gv_part(weights, first, GV_FEATURE_COLUMNS));
        } else {
            gv_add_layer<gv_width(LAYER - 1)>(sums, group, input, gv_part(weights, first, 0));
        }
        gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
            const GvUnit one = gv_activated(x), two = gv_activated(y);
            if constexpr (GV_ACTIVATION == GV_TANH) gv_put(high, place, first, one.value, two.value);
            else gv_put_finite(high, place, first, one.value, two.value);
            gv_keep_slopes<LAYER>(keep, place, first, one.slope, two.slope);
            if constexpr (LAYER == GV_LAYERS) {
                float kept, other;
                gv_get(high, place, first, kept, other);
                gv_put(low, place, first, one.value - kept, two.value - other);
            }
        });
    }
    gv_keep_units<LAYER, ROWS>(keep, group, high);
    if constexpr (LAYER < GV_LAYERS) {
        gv_forward_from<LAYER + 1>(network, group, high, keep, outputs);
    } else {
        const auto last = gv_weights<GV_LAST>(network);
        gv_fill(outputs, group, network.floats + gv_biases_at(GV_LAST));
        gv_add_layer<WIDTH>(outputs, group, low, last);
        gv_add_layer<WIDTH>(outputs, group, high, gv_last_low(network));
        gv_add_layer<WIDTH>(outputs, group, high, last);
    }
}

// Outputs of the group's rows, whose features are in a tile that starts with them.
template <gv_i32 ROWS, gv_i32 OUTPUTS, gv_i32 STRIDE, class Keep>
GV_FN GvSums<ROWS, GvNetwork<OUTPUTS>::COLUMNS> gv_forward(const GvNetwork<OUTPUTS>& network, const GvGroup& group,
                                                          GvTile<STRIDE> features, Keep& keep) {
    GvSums<ROWS, GvNetwork<OUTPUTS>::COLUMNS> outputs;
    gv_forward_from<1>(network, group, features, keep, outputs);
    return outputs;
}
