// Networks of a policy on tiles of rows: an actor and a critic with hidden layers of their own, of equal sizes.
//
// gpu_vecenv/train/fused/tile_plan.py defines sizes and places as macros: GV_LAYERS (1 to 3) hidden layers, GV_ACTIVATION, tables
// of layers, and so on. OUTPUTS, the number of outputs, is a template argument. Widths in memory are multiples of 16; units of
// the padding have weights of 0.
//
// With GV_SPLIT, the memory of a team holds the first layer or the layers above it. One kernel computes the units of the first
// layer and writes them to global memory, another one continues there.
//
// Hidden layers multiply numbers of 16 bits. The first and the last layer are nearly exact: both operands have a high part of 16
// bits and a low part, the rest, and the product of the low parts is left out.
//
// A feature or a unit out of the range of 16 bits has infinite parts of both signs, so the outputs are NaN. So has a weight of the
// first or the last layer; one between two layers of tanh saturates its unit.
#pragma once
#include "learner/tile.h"
#include "program_args.h"

// Derivatives are kept as numbers of 16 bits. Those of hidden layers are GV_SCALE times as large as those of the outputs, so that
// slopes of the last hidden layer are normal numbers from 2e-6 on. Slopes of the layers below are from 2e-4 on.
#define GV_SCALE 32.0f

// Weights and biases of hidden layers are multiplied by this in memory, so that tanh takes the power 2^sum = e^(2 x).
#define GV_GAIN (GV_ACTIVATION == GV_TANH ? 2.8853900817779268f : 1.0f)
GV_FN float gv_scaled(gv_i32 layer, float x) { return layer == GV_LAYERS + 1 ? x : GV_GAIN * x; }

#define GV_TABLE(name, VALUES)               \
    GV_FN constexpr gv_i32 name(gv_i32 i) {  \
        constexpr gv_i32 values[] = VALUES;  \
        return values[i];                    \
    }
// By layer; layer 0 are the features, and GV_LAST the outputs. Places are in numbers of 16 bits, those of biases in floats.
#define GV_LAST (GV_LAYERS + 1)
GV_TABLE(gv_units, GV_UNITS)
GV_TABLE(gv_width, GV_WIDTHS)  // in memory
GV_TABLE(gv_weight_stride, GV_WEIGHT_STRIDES)
GV_TABLE(gv_weights_at, GV_WEIGHTS_AT)
GV_TABLE(gv_biases_at, GV_BIASES_AT)
GV_FN constexpr gv_i32 gv_unit_stride(gv_i32 layer) { return gv_weight_stride(layer + 1); }  // of as many columns

// By network: the actor, or a critic with one output.
GV_TABLE(gv_network_columns, GV_NETWORK_COLUMNS)
GV_TABLE(gv_network_rows, GV_NETWORK_ROWS)
GV_TABLE(gv_network_floats, GV_NETWORK_FLOATS)

// Columns of the high parts of features in a tile, which has GV_FEATURE_COLUMNS: high parts, then low parts. They may include some
// low parts, whose weights are 0.
#define GV_HIGH_COLUMNS gv_width(0)

#define GV_LAST_STRIDE gv_weight_stride(GV_LAST)

// Memory of a team: numbers of 16 bits, then floats. Kernels of the first layer of a wide network have other numbers of 16 bits.
GV_FN constexpr gv_i32 gv_scratch_floats() {
    constexpr gv_i32 all = GV_HALVES * (gv_i32)sizeof(GvHalf) / 4 + GV_FLOATS, streamed = GV_STREAMED * (gv_i32)sizeof(GvHalf) / 4;
    return all > streamed ? all : streamed;
}

// A network in the memory of a team: weights of 16 bits, then floats.
template <gv_i32 OUTPUTS>
struct GvNetwork {
    static constexpr gv_i32 NUMBER = OUTPUTS == GV_OUTPUTS ? 0 : 1;
    static constexpr gv_i32 COLUMNS = gv_network_columns(NUMBER), ROWS = gv_network_rows(NUMBER);  // of the last layer
    static constexpr gv_i32 FLOATS = gv_network_floats(NUMBER);
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

// The low part of a number: the rest behind its 16 bits.
GV_FN float gv_rest(float x) { return x - gv_float(gv_half(x)); }

// Stores a feature of a row, normalised, in a tile of GV_FEATURE_COLUMNS columns; those behind the parts must be 0.
template <gv_i32 OUTPUTS, gv_i32 STRIDE>
GV_FN void gv_set_feature(const GvNetwork<OUTPUTS>& network, GvTile<STRIDE> tile, gv_i32 row, gv_i32 i, float x, float limit) {
    const float* numbers = network.floats + gv_biases_at(GV_LAST) + GvNetwork<OUTPUTS>::COLUMNS;
    const float moved = (x - numbers[i]) * numbers[GV_FEATURES + i] + numbers[2 * GV_FEATURES + i];
    const float normal = gv_clamp(moved, -limit, limit);
    gv_set(tile, row, i, normal);
    gv_set(tile, row, GV_FEATURES + i, gv_rest(normal));
}

// The same for features i to i + 3 of a row; all places are multiples of four numbers.
struct alignas(16) GvFour {
    float number[4];
};
struct alignas(4 * sizeof(GvHalf)) GvFourHalves {
    GvHalf number[4];
};
template <gv_i32 OUTPUTS, gv_i32 STRIDE>
GV_FN void gv_set_four_features(const GvNetwork<OUTPUTS>& network, GvTile<STRIDE> tile, gv_i32 row, gv_i32 i, const float* x,
                                float limit) {
    const float* numbers = network.floats + gv_biases_at(GV_LAST) + GvNetwork<OUTPUTS>::COLUMNS + i;
    const GvFour offset = *(const GvFour*)numbers, scale = *(const GvFour*)(numbers + GV_FEATURES);
    const GvFour shift = *(const GvFour*)(numbers + 2 * GV_FEATURES), four = *(const GvFour*)x;
    GvFourHalves high, low;
    GV_UNROLL for (gv_i32 k = 0; k < 4; ++k) {
        const float moved = (four.number[k] - offset.number[k]) * scale.number[k] + shift.number[k];
        const float normal = gv_clamp(moved, -limit, limit);
        high.number[k] = gv_half(normal);
        low.number[k] = gv_half(gv_rest(normal));
    }
    *(GvFourHalves*)(tile.at + row * STRIDE + i) = high;
    *(GvFourHalves*)(tile.at + row * STRIDE + GV_FEATURES + i) = low;
}

// ---- forward ---------------------------------------------------------------------------------------------------

// A unit: its value, and a factor times the derivative by x. The factor of the last hidden layer is GV_SCALE. That of the others
// is 1 / GV_GAIN, because the weights of the layer above are stored GV_GAIN times as large. So derivatives of all hidden layers
// have the scale GV_SCALE.
struct GvUnit {
    float value, slope;
};
GV_FN constexpr float gv_slope_factor(gv_i32 layer) { return layer == GV_LAYERS ? GV_SCALE : 1.0f / GV_GAIN; }

// A unit of a sum, GV_GAIN x. With p = 1 / (1 + e^(2 x)), tanh x = 1 - 2 p and 1 - tanh^2 = 4 p (1 - p). From a tanh of 16 bits,
// 1 - tanh^2 would be lost where units are saturated.
template <gv_i32 LAYER>
GV_FN GvUnit gv_activated(float sum) {
    constexpr float FACTOR = gv_slope_factor(LAYER);
    if constexpr (GV_ACTIVATION == GV_TANH) {
        const float p = gv_reciprocal_guess(1.0f + gv_exp2_guess(sum));
        return {gv_fma(p, -2.0f, 1.0f), p * gv_fma(p, -4.0f * FACTOR, 4.0f * FACTOR)};
    }
    if constexpr (GV_ACTIVATION == GV_RELU) return {sum < 0.0f ? 0.0f : sum, sum > 0.0f ? FACTOR : 0.0f};
    const float e = gv_exp2_guess(1.4426950408889634f * gv_min(sum, 0.0f));
    return {sum > 0.0f ? sum : e - 1.0f, FACTOR * e};
}

// Columns that a group computes at a time: fewer need fewer registers.
GV_FN constexpr gv_i32 gv_chunk(gv_i32 columns) { return columns % 32 == 0 ? 32 : 16; }

// Does nothing with the units of a layer and their slopes. Another type may keep them, see gradient.cu.
struct GvForget {};
template <gv_i32 LAYER, gv_i32 ROWS, gv_i32 N>
GV_FN void gv_keep_units(GvForget&, const GvGroup&, const GvRows<ROWS, N>&, gv_i32) {}
template <gv_i32 LAYER>
GV_FN void gv_keep_slopes(GvForget&, const GvPlace&, gv_i32, float, float) {}

// Sums of a chunk of a hidden layer: the columns from `first` on. `input` has the group's rows.
template <gv_i32 LAYER, gv_i32 CHUNK, gv_i32 ROWS, gv_i32 OUTPUTS, class Input>
GV_FN GvSums<ROWS, CHUNK> gv_chunk_sums(const GvNetwork<OUTPUTS>& network, const GvGroup& group, const Input& input, gv_i32 first) {
    const auto weights = gv_weights<LAYER>(network);
    GvSums<ROWS, CHUNK> sums;
    gv_fill(sums, group, network.floats + gv_biases_at(LAYER) + first);
    if constexpr (LAYER == 1) {
        gv_add_layer<GV_FEATURE_COLUMNS>(sums, group, input, gv_part(weights, first, 0));
        gv_add_layer<GV_HIGH_COLUMNS>(sums, group, input, gv_part(weights, first, GV_FEATURE_COLUMNS));
    } else {
        gv_add_layer<gv_width(LAYER - 1)>(sums, group, input, gv_part(weights, first, 0));
    }
    return sums;
}

// Units of these sums: they become the columns of `high` from `at` on. `low` gets their low parts in the last hidden layer.
template <gv_i32 LAYER, gv_i32 ROWS, gv_i32 CHUNK, gv_i32 N, gv_i32 LOW, class Keep>
GV_FN void gv_activate(GvSums<ROWS, CHUNK>& sums, const GvGroup& group, Keep& keep, gv_i32 first, GvRows<ROWS, N>& high, gv_i32 at,
                       GvRows<ROWS, LOW>& low) {
    gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
        const GvUnit one = gv_activated<LAYER>(x), two = gv_activated<LAYER>(y);
        gv_put(high, place, at, one.value, two.value);
        gv_keep_slopes<LAYER>(keep, place, first, one.slope, two.slope);
        if constexpr (LAYER == GV_LAYERS) {
            float kept, other;
            gv_get(high, place, at, kept, other);
            gv_put(low, place, at, one.value - kept, two.value - other);
        }
    });
}

// Adds the products of a chunk of the last hidden layer to the outputs.
template <gv_i32 ROWS, gv_i32 CHUNK, gv_i32 OUTPUTS>
GV_FN void gv_add_to_outputs(const GvNetwork<OUTPUTS>& network, const GvGroup& group, const GvRows<ROWS, CHUNK>& high,
                             const GvRows<ROWS, CHUNK>& low, gv_i32 first, GvSums<ROWS, GvNetwork<OUTPUTS>::COLUMNS>& outputs) {
    const auto weights = gv_part(gv_weights<GV_LAST>(network), 0, first);
    gv_add_layer<CHUNK>(outputs, group, low, weights);
    gv_add_layer<CHUNK>(outputs, group, high, gv_part(gv_last_low(network), 0, first));
    gv_add_layer<CHUNK>(outputs, group, high, weights);
}

// True if each chunk's share of the outputs is summed apart. Groups that compute chunks side by side (warp_specialised.h) do the
// same, and get the bits of one group. Kernels that learn have no registers for it, and add chunk after chunk.
template <class Keep>
struct GvShares {
    static constexpr bool APART = false;
};
template <>
struct GvShares<GvForget> {
    static constexpr bool APART = !GV_SPLIT;
};

// Computes a hidden layer and those above it, then the outputs. `input` has the group's rows. From the first layer of a split
// network it computes this layer alone, and no outputs.
//
// A layer is computed in chunks of columns. If nothing of a chunk stays in registers, the loop over chunks of a split network is
// not unrolled: the longer code took more time (docs/training-speed.md).
template <gv_i32 LAYER, gv_i32 ROWS, gv_i32 OUTPUTS, class Input, class Keep>
GV_FN void gv_forward_from(const GvNetwork<OUTPUTS>& network, const GvGroup& group, const Input& input, Keep& keep,
                           GvSums<ROWS, GvNetwork<OUTPUTS>::COLUMNS>& outputs) {
    constexpr bool LAST = LAYER == GV_LAYERS;  // its units go into the outputs chunk by chunk
    constexpr bool LEAVES = LAST || (GV_SPLIT && LAYER == 1);  // no unit stays in registers
    constexpr gv_i32 WIDTH = gv_width(LAYER), CHUNK = LAST ? GV_LAST_CHUNK : LAYER == 1 ? gv_chunk(WIDTH) : 16;
    static_assert(!(LAST && GV_SPLIT && LAYER == 1), "another kernel computes the first layer of a wide network");
    GvRows<ROWS, LEAVES ? CHUNK : WIDTH> high;
    GvRows<ROWS, LAST ? CHUNK : 16> low;
    if constexpr (LAST) gv_fill(outputs, group, network.floats + gv_biases_at(GV_LAST));
    const auto chunk = [&](gv_i32 first) {
        auto sums = gv_chunk_sums<LAYER, CHUNK, ROWS>(network, group, input, first);
        gv_activate<LAYER>(sums, group, keep, first, high, LEAVES ? 0 : first, low);
        if constexpr (LAST && GvShares<Keep>::APART) {
            GvSums<ROWS, GvNetwork<OUTPUTS>::COLUMNS> share;
            gv_clear(share);
            gv_add_to_outputs(network, group, high, low, first, share);
            gv_add_sums(outputs, share);
        } else if constexpr (LAST) {
            gv_add_to_outputs(network, group, high, low, first, outputs);
        }
        if constexpr (LEAVES) gv_keep_units<LAYER>(keep, group, high, first);
    };
    if constexpr (GV_SPLIT && LEAVES) {
        GV_LOOP for (gv_i32 first = 0; first < WIDTH; first += CHUNK) chunk(first);
    } else {
        GV_UNROLL for (gv_i32 first = 0; first < WIDTH; first += CHUNK) chunk(first);
    }
    if constexpr (!LEAVES) {
        gv_keep_units<LAYER>(keep, group, high, 0);
        gv_forward_from<LAYER + 1>(network, group, high, keep, outputs);
    }
}

// Outputs of the group's rows. Features are in a tile that starts with these rows.
template <gv_i32 ROWS, gv_i32 OUTPUTS, gv_i32 STRIDE, class Keep>
GV_FN GvSums<ROWS, GvNetwork<OUTPUTS>::COLUMNS> gv_forward(const GvNetwork<OUTPUTS>& network, const GvGroup& group,
                                                          GvTile<STRIDE> features, Keep& keep) {
    GvSums<ROWS, GvNetwork<OUTPUTS>::COLUMNS> outputs;
    gv_forward_from<1>(network, group, features, keep, outputs);
    return outputs;
}

// Outputs of a split network from the units of its first layer. If there is no other hidden layer, these have no low parts.
template <gv_i32 ROWS, gv_i32 OUTPUTS, class Keep>
GV_FN void gv_forward_above(const GvNetwork<OUTPUTS>& network, const GvGroup& group, const GvRows<ROWS, gv_width(1)>& units,
                            Keep& keep, GvSums<ROWS, GvNetwork<OUTPUTS>::COLUMNS>& outputs) {
    if constexpr (GV_LAYERS > 1) {
        gv_forward_from<2>(network, group, units, keep, outputs);
    } else {
        gv_fill(outputs, group, network.floats + gv_biases_at(GV_LAST));
        gv_add_layer<gv_width(1)>(outputs, group, units, gv_last_low(network));
        gv_add_layer<gv_width(1)>(outputs, group, units, gv_weights<GV_LAST>(network));
    }
}
