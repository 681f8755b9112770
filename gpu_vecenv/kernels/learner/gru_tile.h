// A GRU that acts on a tile of 16 rows. All groups of a team share its units (gru.h); the leader prepares the rows and uses the
// outputs, as in warp_specialised.h.
#pragma once
#include "learner/gru.h"
#include "learner/warp_specialised.h"

// Memory of a team: the network, features, states before and after a step, in turn, and low parts of those after it.
struct GvGruTile {
    GvGru gru;
    GvTile<GV_FEATURE_STRIDE> features;
    GvStateTile states, low;
    float *outputs, *keep;  // `keep` has 0 where an episode ended with the step before, else 1
};
GV_FN GvGruTile gv_gru_tile(const GvLanes& team) {
    GvHalf* halves = (GvHalf*)team.scratch;
    float* floats = (float*)(halves + GV_HALVES);
    return {{halves, floats},       {halves + GV_FEATURES_AT}, {halves + GV_STATES_AT},
            {halves + GV_LOW_AT}, floats + GV_OUTPUTS_AT,    floats + GV_KEEP_AT};
}
GV_FN GvStateTile gv_state_before(const GvGruTile& tile, gv_i32 step) { return gv_part(tile.states, (step & 1) * 16, 0); }
GV_FN GvStateTile gv_state_after(const GvGruTile& tile, gv_i32 step) { return gv_state_before(tile, step + 1); }

// Steps the group's chunks. There must be a barrier before and after it.
GV_FN void gv_step_gru(const GvGruTile& tile, const GvGroup& group, GvOwnState& state, gv_i32 step) {
    gv_each_chunk(group, [&](gv_i32 turn, gv_i32 chunk) {
        GvChunk& own = state.chunk[turn];
        GvGates<16> gates;
        gv_begin_gates(gates, tile.gru, group, tile.features, chunk);
        gv_end_gates(gates, tile.gru, group, gv_state_before(tile, step), chunk);
        GvHighLow<16> parts;
        gv_each_unit(gates, group, own, [&](const GvPlace& place, const GvUnitStep& one, const GvUnitStep& two) {
            float* now = gv_at(own, place);
            now[0] = one.state;
            now[1] = two.state;
            gv_put_high_low(parts, place, one.state, two.state);
        });
        gv_store(parts.high, group, gv_part(gv_state_after(tile, step), 0, 16 * chunk));
        gv_store(parts.low, group, gv_part(tile.low, 0, 16 * chunk));
    });
}

// Writes the outputs of the heads after a step to the memory of the team. The leader calls it.
GV_FN void gv_gru_outputs(const GvGruTile& tile, const GvGroup& group, gv_i32 step) {
    auto sums = gv_head_outputs<16>(tile.gru, group, gv_state_after(tile, step), tile.low);
    gv_store_outputs<GV_HEADS>(sums, group, tile.outputs);
    gv_group_barrier(group);
}
