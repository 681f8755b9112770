// A GRU that reads the features of a row, and two linear heads that read its state: actor and critic (torch.nn.GRUCell's equations).
//
//   r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
//   n = tanh(W_in x + b_in + r (W_hn h + b_hn))       h' = (1 - z) n + z h
//
// A tile of the GRU has 16 rows, which are sequences. The groups of a team share its units: each computes chunks of 16 units, and
// keeps their part of the state in float from step to step. All groups read the state of 16 bits for the products of the next step.
//
// Precision is that of network.h: features and units of the heads have a low part beside the high one.
#pragma once
#include "learner/load_network.h"
#include "learner/rows.h"

// One network with the outputs of the actor and behind them the value. Layer 1 is the GRU, whose weights of the features have the
// layout of a first layer with the units of three gates; those of the state are at GV_STATE_WEIGHTS_AT.
#define GV_HEADS (GV_OUTPUTS + 1)
typedef GvNetwork<GV_HEADS> GvGru;
typedef GvSums<16, 16> GvChunk;

#define GV_STATE gv_width(1)  // units in memory
#define GV_CHUNKS (GV_STATE / 16)
#define GV_TURNS ((GV_CHUNKS + GV_GROUPS - 1) / GV_GROUPS)  // chunks of a group

typedef GvTile<gv_unit_stride(1)> GvStateTile;

// Calls f(turn, chunk) for the chunks of a group.
template <class F>
GV_FN void gv_each_chunk(const GvGroup& group, F f) {
    GV_UNROLL for (gv_i32 turn = 0; turn < GV_TURNS; ++turn) {
        const gv_i32 chunk = turn * GV_GROUPS + group.number;
        if (GV_CHUNKS % GV_GROUPS == 0 || chunk < GV_CHUNKS) f(turn, chunk);
    }
}

// ---- weights ---------------------------------------------------------------------------------------------------

// Gates in the order of torch.
#define GV_GATE_R 0
#define GV_GATE_Z 1
#define GV_GATE_N 2

// Weights that read the state, (3 GV_STATE, GV_STATE).
GV_FN GvStateTile gv_state_weights(const GvGru& gru) { return {gru.weights + GV_STATE_WEIGHTS_AT}; }

// Weight of a place in memory, (3 GV_STATE, COLUMNS): 0 in the padding. `weight` is that of torch, (3 units, FROM).
template <gv_i32 FROM, gv_i32 COLUMNS>
GV_FN float gv_gate_weight(const float* weight, gv_i32 i) {
    const gv_i32 row = i / COLUMNS, from = i % COLUMNS, gate = row / GV_STATE, unit = row % GV_STATE;
    return unit < gv_units(1) && from < FROM ? weight[(gate * gv_units(1) + unit) * FROM + from] : 0.0f;
}

// Weight of a place of the heads in memory.
GV_FN float gv_head_weight(const GvLayer* layers, gv_i32 i) {
    const gv_i32 output = i / GV_STATE, unit = i % GV_STATE;
    if (output >= GV_HEADS || unit >= gv_units(1)) return 0.0f;
    return output < GV_OUTPUTS ? layers[2].weight[output * gv_units(1) + unit] : layers[3].weight[unit];
}

// Biases and the numbers of the normalisation, in their order in memory. The gates r and z have one bias, the sum of torch's two;
// n has two, as r multiplies the second one.
GV_FN float gv_gru_float(const GvLayer* layers, const GvNorm& norm, gv_i32 i) {
    const gv_i32 output = i - gv_biases_at(GV_LAST), number = output - GvGru::COLUMNS;
    if (output < 0) {
        const gv_i32 part = i / GV_STATE, unit = i % GV_STATE, place = (part < 3 ? part : GV_GATE_N) * gv_units(1) + unit;
        if (unit >= gv_units(1)) return 0.0f;
        const float of_features = part < 3 ? layers[0].bias[place] : 0.0f;
        return of_features + (part != GV_GATE_N ? layers[1].bias[place] : 0.0f);
    }
    if (number < 0) return output < GV_OUTPUTS ? layers[2].bias[output] : output == GV_OUTPUTS ? layers[3].bias[0] : 0.0f;
    const gv_i32 feature = number % GV_FEATURES, of = number / GV_FEATURES;
    return of == 0 ? norm.offset[feature] : of == 1 ? norm.scale[feature] : norm.shift[feature];
}

// Loads the GRU and its heads. `layers`: weights of the features, weights of the state, heads of actor and critic. A barrier must
// follow.
GV_FN void gv_load_gru(const GvLanes& team, const GvGru& gru, const GvLayer* layers, const GvNorm& norm) {
    GvPiece<3 * GV_STATE * GV_HIGH_COLUMNS> first;
    GvPiece<3 * GV_STATE * GV_STATE> second;
    GvPiece<GvGru::ROWS * GV_STATE> last;
    GvPiece<GvGru::FLOATS> floats;
    const auto of_first = [&](gv_i32 i) { return gv_gate_weight<GV_FEATURES, GV_HIGH_COLUMNS>(layers[0].weight, i); };
    const auto of_second = [&](gv_i32 i) { return gv_gate_weight<gv_units(1), GV_STATE>(layers[1].weight, i); };
    const auto of_last = [&](gv_i32 i) { return gv_head_weight(layers, i); };
    const auto of_floats = [&](gv_i32 i) { return gv_gru_float(layers, norm, i); };
    gv_load_piece(first, team, of_first);
    gv_load_piece(last, team, of_last);
    gv_load_piece(floats, team, of_floats);
    gv_load_piece(second, team, of_second);
    gv_store_piece(first, team, of_first, [&](gv_i32 i, float w) { gv_store_weight<1>(gru, i, w); });
    gv_store_piece(last, team, of_last, [&](gv_i32 i, float w) { gv_store_weight<GV_LAST>(gru, i, w); });
    gv_store_piece(floats, team, of_floats, [&](gv_i32 i, float x) { gru.floats[i] = x; });
    gv_store_piece(second, team, of_second,
                   [&](gv_i32 i, float w) { gv_set(gv_state_weights(gru), i / GV_STATE, i % GV_STATE, w); });
}

// ---- a step ----------------------------------------------------------------------------------------------------

// Sums of the gates of a chunk; n is the part of the features, and hn that of the state.
template <gv_i32 ROWS>
struct GvGates {
    GvSums<ROWS, 16> r, z, n, hn;
};

template <gv_i32 ROWS, gv_i32 STRIDE>
GV_FN void gv_gate_of_features(GvSums<ROWS, 16>& sums, const GvGru& gru, const GvGroup& group, GvTile<STRIDE> features, gv_i32 gate,
                               gv_i32 chunk) {
    const gv_i32 first = gate * GV_STATE + 16 * chunk;
    const auto weights = gv_part(gv_weights<1>(gru), first, 0);
    gv_fill(sums, group, gru.floats + first);
    gv_add_layer<GV_FEATURE_COLUMNS>(sums, group, features, weights);
    gv_add_layer<GV_HIGH_COLUMNS>(sums, group, features, gv_part(weights, 0, GV_FEATURE_COLUMNS));
}

// The part of the gates that needs no state.
template <gv_i32 ROWS, gv_i32 STRIDE>
GV_FN void gv_begin_gates(GvGates<ROWS>& gates, const GvGru& gru, const GvGroup& group, GvTile<STRIDE> features, gv_i32 chunk) {
    gv_gate_of_features(gates.r, gru, group, features, GV_GATE_R, chunk);
    gv_gate_of_features(gates.z, gru, group, features, GV_GATE_Z, chunk);
    gv_gate_of_features(gates.n, gru, group, features, GV_GATE_N, chunk);
    gv_fill(gates.hn, group, gru.floats + 3 * GV_STATE + 16 * chunk);
}

// The part of the state, which is a tile of the rows.
template <gv_i32 ROWS>
GV_FN void gv_end_gates(GvGates<ROWS>& gates, const GvGru& gru, const GvGroup& group, GvStateTile state, gv_i32 chunk) {
    const GvStateTile weights = gv_part(gv_state_weights(gru), 16 * chunk, 0);
    gv_add_layer<GV_STATE>(gates.r, group, state, gv_part(weights, GV_GATE_R * GV_STATE, 0));
    gv_add_layer<GV_STATE>(gates.hn, group, state, gv_part(weights, GV_GATE_N * GV_STATE, 0));
    gv_add_layer<GV_STATE>(gates.z, group, state, gv_part(weights, GV_GATE_Z * GV_STATE, 0));
}

GV_FN float gv_sigmoid(float x) { return gv_reciprocal_guess(1.0f + gv_exp2_guess(-1.4426950408889634f * x)); }

// A unit after a step, and factors of its derivative d: those by the sums of the gates are by_n d, by_z d and by_r by_n d, that by
// W_hn h is r by_n d, and that by the state before is z d beside what goes through the gates.
struct GvUnitStep {
    float state, by_n, by_z, by_r, r, z;
};
GV_FN GvUnitStep gv_unit_step(float of_r, float of_z, float of_n, float hn, float before) {
    const float r = gv_sigmoid(of_r), z = gv_sigmoid(of_z);
    const float p = gv_reciprocal_guess(1.0f + gv_exp2_guess(2.8853900817779268f * gv_fma(r, hn, of_n)));
    const float n = gv_fma(p, -2.0f, 1.0f), rest = 1.0f - z;
    return {gv_fma(z, before - n, n), rest * (4.0f * p * (1.0f - p)), (before - n) * (z * rest), hn * (r * (1.0f - r)), r, z};
}

// Calls use(place, one, two) for the pairs of units of a chunk after a step, where one and two are GvUnitStep; `before` is the state
// before it.
template <gv_i32 ROWS, class Use>
GV_FN void gv_each_unit(GvGates<ROWS>& gates, const GvGroup& group, GvSums<ROWS, 16>& before, Use use) {
    gv_each_pair(gates.r, group, [&](const GvPlace& place, float& x, float& y) {
        const float *z = gv_at(gates.z, place), *n = gv_at(gates.n, place), *hn = gv_at(gates.hn, place);
        const float* was = gv_at(before, place);
        use(place, gv_unit_step(x, z[0], n[0], hn[0], was[0]), gv_unit_step(y, z[1], n[1], hn[1], was[1]));
    });
}

// State of the group's chunks, of 16 rows.
struct GvOwnState {
    GvChunk chunk[GV_TURNS];
};

// Loads states, [*rows, units], and stores them in a tile. `number(row)` is the row in memory, or -1 for a state of 0.
template <class Number>
GV_FN void gv_load_state(GvOwnState& state, const GvGroup& group, GvStateTile tile, const float* from, Number number) {
    gv_each_chunk(group, [&](gv_i32 turn, gv_i32 chunk) {
        GvRows<16, 16> rows;
        gv_each_pair(state.chunk[turn], group, [&](const GvPlace& place, float& x, float& y) {
            const gv_i32 row = number(place.row), unit = 16 * chunk + place.column;
            const float* own = from + (gv_i64)row * gv_units(1) + unit;
            x = row >= 0 && unit < gv_units(1) ? own[0] : 0.0f;
            y = row >= 0 && unit + 1 < gv_units(1) ? own[1] : 0.0f;
            gv_put(rows, place, 0, x, y);
        });
        gv_store(rows, group, gv_part(tile, 0, 16 * chunk));
    });
}

// Stores states, in the same way.
template <class Number>
GV_FN void gv_store_state(GvOwnState& state, const GvGroup& group, float* to, Number number) {
    gv_each_chunk(group, [&](gv_i32 turn, gv_i32 chunk) {
        gv_each_pair(state.chunk[turn], group, [&](const GvPlace& place, float& x, float& y) {
            const gv_i32 row = number(place.row), unit = 16 * chunk + place.column;
            float* own = to + (gv_i64)row * gv_units(1) + unit;
            if (row >= 0 && unit < gv_units(1)) own[0] = x;
            if (row >= 0 && unit + 1 < gv_units(1)) own[1] = y;
        });
    });
}

// High and low parts of the units of a chunk.
template <gv_i32 ROWS>
struct GvHighLow {
    GvRows<ROWS, 16> high, low;
};
template <gv_i32 ROWS>
GV_FN void gv_put_high_low(GvHighLow<ROWS>& parts, const GvPlace& place, float x, float y) {
    float high_x, high_y;
    gv_put(parts.high, place, 0, x, y);
    gv_get(parts.high, place, 0, high_x, high_y);
    gv_put(parts.low, place, 0, x - high_x, y - high_y);
}

// Outputs of the heads of the group's rows, from tiles of the high and the low parts of the state.
template <gv_i32 ROWS>
GV_FN GvSums<ROWS, GvGru::COLUMNS> gv_head_outputs(const GvGru& gru, const GvGroup& group, GvStateTile high, GvStateTile low) {
    GvSums<ROWS, GvGru::COLUMNS> outputs;
    const auto weights = gv_weights<GV_LAST>(gru);
    gv_fill(outputs, group, gru.floats + gv_biases_at(GV_LAST));
    gv_add_layer<GV_STATE>(outputs, group, low, weights);
    gv_add_layer<GV_STATE>(outputs, group, high, gv_last_low(gru));
    gv_add_layer<GV_STATE>(outputs, group, high, weights);
    return outputs;
}
